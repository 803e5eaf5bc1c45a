/** Turns of the event loop that schedules, as a gateway tells of them (packages/gateway/src/metrics). */
import type { Turns } from "./results.ts";

/** @param port - of its metrics; 0: there are none */
export async function schedulingTurns(port: number): Promise<Turns | undefined> {
  if (port === 0) return undefined;
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const turn = (percentile: string): number =>
    1_000 * valueOf(text, "turn_seconds", `role="batcher",percentile="${percentile}"`);
  const [p999Ms, maxMs] = [turn("99.9"), turn("100")];
  return Number.isNaN(maxMs) ? undefined : { p999Ms, maxMs, gcShare: valueOf(text, "gc_ratio", 'role="batcher"') };
}

function valueOf(text: string, name: string, labels: string): number {
  const start = `tutti_event_loop_${name}{${labels}} `;
  return Number(
    text
      .split("\n")
      .find((line) => line.startsWith(start))
      ?.slice(start.length),
  );
}
