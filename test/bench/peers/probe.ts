/** Single requests: whether a system answers, and how soon. */
import { setTimeout as sleep } from "node:timers/promises";
import { isRight } from "./answers.ts";
import { HttpPool, type Transport, type TransportEvents } from "./http-pool.ts";
import type { LoadKind, LoadPlan } from "./load-plan.ts";
import { NatsLink } from "./nats-link.ts";

export interface Way {
  readonly transport: LoadPlan["transport"];
  readonly port: number;
}

const ANSWER_MS_MAX = 5_000;

/** @returns the latency of a right answer, in ms; undefined: there was none */
export function ask(way: Way, kind: LoadKind): Promise<number | undefined> {
  const bytes = Buffer.from(kind.requests[0]!, "base64");
  const begin = performance.now();
  return new Promise((resolve) => {
    const end = (tookMs: number | undefined): void => {
      clearTimeout(late);
      transport.close();
      resolve(tookMs);
    };
    const events: TransportEvents<0> = {
      answered: (_, answer) =>
        end(answer.isOk && isRight(answer, kind.form, kind.expected[0]!) ? performance.now() - begin : undefined),
      lost: () => end(undefined),
    };
    const { subject = "", headerBytes = 0 } = kind;
    const transport: Transport<0> =
      way.transport === "http"
        ? new HttpPool({ port: way.port, events, bytesOf: () => bytes })
        : new NatsLink({ port: way.port, events, messageOf: () => ({ subject, headerBytes, bytes }) });
    const late = setTimeout(end, ANSWER_MS_MAX, undefined);
    transport.send(0);
  });
}

/**
 * Asks until every kind was answered correctly within `withinMs`, `times` in a row. @returns whether that happened
 * within `msMax`
 */
export async function answersWithin(
  way: Way,
  kinds: readonly LoadKind[],
  {
    withinMs,
    times,
    msMax,
    isOver = () => false,
  }: {
    readonly withinMs: number;
    readonly times: number;
    readonly msMax: number;
    readonly isOver?: () => boolean;
  },
): Promise<boolean> {
  const until = performance.now() + msMax;
  for (const kind of kinds)
    for (let inRow = 0; inRow < times;) {
      if (performance.now() > until || isOver()) return false;
      const tookMs = await ask(way, kind);
      inRow = tookMs !== undefined && tookMs <= withinMs ? inRow + 1 : 0;
      if (inRow === 0) await sleep(50);
    }
  return true;
}
