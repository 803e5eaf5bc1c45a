import type { BusStatus } from "@tutti/ports/bus";
import type { Logger } from "@tutti/ports/telemetry";

/**
 * Says once for the process that NATS is away, whether the connection broke or the server hangs, and when it is back;
 * its actors note the former for themselves. @param now - ms
 */
export function outages(log: Pick<Logger, "warn">, now: () => number): (status: BusStatus) => void {
  let lostAt: number | undefined;
  const lost = (silentMs: number): void => {
    if (lostAt !== undefined) return;
    lostAt = now() - silentMs;
    const cause = silentMs > 0 ? `it has answered nothing for ${(silentMs / 1_000).toFixed(1)} s. ` : "";
    log.warn({}, `NATS can't be reached: ${cause}${SCOPE}`);
  };
  return (status) => {
    if (status.kind === "silent") lost(status.lagMs);
    else if (status.kind === "disconnected") lost(0);
    else if (status.kind === "reconnected" || status.kind === "heard") {
      if (lostAt === undefined) return;
      log.warn({ awayS: Math.round((now() - lostAt) / 100) / 10 }, "NATS is back");
      lostAt = undefined;
    }
  };
}

const SCOPE = "Until it is back, only requests are served that need no other host";
