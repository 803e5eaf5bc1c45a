import { checkName } from "@tutti/admin/asked-name";
import type { NatsConnection } from "@tutti/bus-nats";

/** How long reports of ingresses, which name the pipelines, are waited for at most. */
const REPORTS_MS = 2_500;

/** @throws {TuttiError} NOT_FOUND: neither a model nor a pipeline has the name; a similar one is suggested */
export const checkAskedName = (name: string, { control, store }: NatsConnection, cluster: string): Promise<void> =>
  checkName(name, { bus: control, store, cluster, waitMs: REPORTS_MS });
