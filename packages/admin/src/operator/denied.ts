import type { Bus } from "@tutti/ports/bus";
import { TuttiError } from "@tutti/protocol";

/**
 * Runs `work`, and fails as soon as NATS refuses a subject. Without the operator's credentials no message would ever
 * arrive.
 */
export async function unlessDenied<Result>(bus: Bus, work: () => Promise<Result>): Promise<Result> {
  const { promise: denied, reject } = Promise.withResolvers<never>();
  denied.catch(() => undefined);
  const listening = bus.onStatus((status) => {
    if (status.kind !== "permission-denied") return;
    const advice = "this needs the operator's credentials: name them with --creds creds/admin.nk, or TUTTI_CREDS";
    reject(new TuttiError("TUTTI_FORBIDDEN", `NATS does not allow ${status.subject}; ${advice}`));
  });
  try {
    return await Promise.race([work(), denied]);
  } finally {
    listening.stop();
  }
}
