import type { BusStatus } from "@tutti/ports/bus";
import type { Logger } from "@tutti/ports/telemetry";

/** Refused subjects that are logged; the last one says that it stands for the rest. */
export const DENIED_SUBJECTS_MAX = 16;

const ADVICE =
  "NATS does not allow it, and refuses it again without a line here: the permissions of this user are perhaps those of an earlier release. Write them anew with `tutti auth write`, and have the servers read them (`nats-server --signal reload`), and restart this actor, which does not ask again for what was refused (`tutti restart`)";

/** Logs each subject that NATS refuses once: an actor publishes some of them every second. */
export function deniedSubjects(log: Logger): (status: BusStatus) => void {
  const logged = new Set<string>();
  return (status) => {
    if (status.kind !== "permission-denied") return;
    const { subject, text } = status;
    if (logged.has(subject) || logged.size >= DENIED_SUBJECTS_MAX) return;
    logged.add(subject);
    const isLast = logged.size === DENIED_SUBJECTS_MAX;
    log.error({ subject, text }, isLast ? `${ADVICE}. Further subjects are not logged` : ADVICE);
  };
}
