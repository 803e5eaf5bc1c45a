import { type Micros, micros, millis } from "@tutti/units";
import type { Network } from "./scenario.ts";

/** The longest that each delay can take: plans use these. */
export function plannedDelays({ ctrl, data, respond, jitter }: Network): {
  ctrl: Micros;
  perItem: Micros;
  respond: Micros;
} {
  const longest = (delay: Micros): Micros => micros(Math.ceil(delay * (1 + jitter) - 1e-9));
  return { ctrl: longest(ctrl), perItem: longest(data), respond: longest(respond) };
}

/** Actors gather messages that may wait for so long (packages/actors/src/runtime/outbox.ts). */
const GATHER = millis(1);
/** Each delay is drawn between nothing and twice its mean, as the measured means and high percentiles have it. */
const JITTER = 1;

/**
 * The network of a running system, by the means that it measured in µs: arrivals until they are known, gathering
 * included, grants, starts after a grant, and what is set aside for an answer, which is its longest way.
 */
export function measuredNetwork(
  measured: Readonly<Record<"arriveUs" | "grantUs" | "startUs" | "respondUs", number>>,
): Network {
  const { arriveUs, grantUs, startUs, respondUs } = measured;
  const mean = (us: number): Micros => micros(Math.max(0, Math.round(us)));
  return {
    // A request joins a batch if it is known when the grant comes. The simulator's grants take no time, so its requests
    // have as long as a real grant takes.
    arrive: mean((arriveUs - GATHER / 2 - grantUs) / (1 + JITTER)),
    gather: GATHER,
    ctrl: mean(startUs),
    data: micros(0),
    respond: mean(respondUs / (1 + JITTER)),
    jitter: JITTER,
  };
}
