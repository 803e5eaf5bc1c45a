/**
 * Figures of this process for `tutti top`: totals since its start, and the event loop's lateness since the last
 * reading.
 */
import { monitorEventLoopDelay, performance } from "node:perf_hooks";

/** Fifty wake-ups a second cost a thousandth of a core. */
const RESOLUTION_MS = 20;

/**
 * Time for which the event loop was not waiting, since the start of the process. Reported by processes of one role: it
 * is the role's own there.
 */
export const loopBusyUs = (): number => Math.round(performance.eventLoopUtilization().active * 1_000);

/** @param more - further figures of the process */
export function watchVitals(more: () => Readonly<Record<string, number>>): () => Readonly<Record<string, number>> {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delay.enable();
  return () => {
    const { user, system } = process.cpuUsage();
    // The histogram holds whole intervals, in nanoseconds: the excess over the requested one is lateness.
    const lateUs = (ns: number): number => Math.max(0, Math.round(ns / 1_000 - RESOLUTION_MS * 1_000));
    const [lagP99Us, lagMaxUs] = delay.count === 0 ? [0, 0] : [lateUs(delay.percentile(99)), lateUs(delay.max)];
    delay.reset();
    return { cpuUs: user + system, rssBytes: process.memoryUsage.rss(), lagP99Us, lagMaxUs, ...more() };
  };
}
