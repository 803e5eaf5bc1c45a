import type { BusStatus } from "@tutti/ports/bus";
import type { Logger } from "@tutti/ports/telemetry";

/**
 * Says once for the process that NATS is away, and when it is back; its actors note the same for themselves. @param now
 * - ms
 */
export function outages(log: Pick<Logger, "warn">, now: () => number): (status: BusStatus) => void {
  let lostAt: number | undefined;
  return ({ kind }) => {
    if (kind === "disconnected" && lostAt === undefined) {
      lostAt = now();
      log.warn({}, "NATS can't be reached: requests fail until it is back");
    } else if (kind === "reconnected" && lostAt !== undefined) {
      log.warn({ awayS: Math.round((now() - lostAt) / 100) / 10 }, "NATS is back");
      lostAt = undefined;
    }
  };
}
