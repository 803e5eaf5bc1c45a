import { type Micros, micros } from "@tutti/units";
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
