/** Figures of this process, which one of its actors reports with its own: totals since its start, and turns. */
import { performance } from "node:perf_hooks";
import type { EventLoopTurns } from "@tutti/node/event-loop";

/**
 * Time for which the event loop was not waiting, since the start of the process. Reported by processes of one role: it
 * is the role's own there.
 */
export const loopBusyUs = (): number => Math.round(performance.eventLoopUtilization().active * 1_000);

/** @param more - further figures of the process */
export function watchVitals(
  turns: EventLoopTurns,
  more: () => Readonly<Record<string, number>>,
): () => Readonly<Record<string, number>> {
  return () => {
    const { user, system } = process.cpuUsage();
    const { sinceRead, minute } = turns.read();
    return {
      ...{ cpuUs: user + system, rssBytes: process.memoryUsage.rss() },
      ...{ turnP99Us: Math.round(sinceRead.p99Us), turnMaxUs: Math.round(sinceRead.maxUs) },
      minuteTurnP50Us: Math.round(minute.p50Us),
      minuteTurnP99Us: Math.round(minute.p99Us),
      minuteTurnP999Us: Math.round(minute.p999Us),
      minuteTurnMaxUs: Math.round(minute.maxUs),
      minuteGcShare: Number(minute.gcShare.toFixed(4)),
      ...more(),
    };
  };
}
