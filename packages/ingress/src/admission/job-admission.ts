/** Checks and limits of jobs, beyond those of all requests (docs/algorithms.md, A13). */
import type { Delivery } from "@tutti/ports/bus";
import { HEADER, type Role, SLO_US_MAX, TuttiError } from "@tutti/protocol";
import { after, earlier, micros } from "@tutti/units";
import type { ActorRuntime, CatalogModel } from "@tutti/actors/runtime";
import type { PendingRequest } from "../requests/pending-request.ts";
import { headerError } from "../requests/terms-error.ts";

/** Longest time for which an ingress holds a job; then it is refused, and may be sent again. */
export const JOB_HELD_FOR = micros(SLO_US_MAX);
const RETRY_MS = 1_000;

/** @throws {TuttiError} INVALID_INPUT for any value but "1" */
export function readIsJob(delivery: Delivery): boolean {
  const text = delivery.header(HEADER.job);
  if (text === undefined || text === "1") return text !== undefined;
  throw headerError(HEADER.job, text, "is not 1: leave it out for a request");
}

/** A job's deadline may be far away; the ingress holds it for no longer than any request. */
export function holdNoLonger(job: PendingRequest): void {
  job.deadline = earlier(job.deadline, after(job.arrivedAt, JOB_HELD_FOR));
  job.slo = micros(Math.min(job.slo, JOB_HELD_FOR));
  job.costs = undefined;
}

/**
 * During an upgrade a batcher or an executor may not know the threads of jobs yet: it would keep a job until its
 * deadline, or refuse its batches again and again.
 *
 * @throws {TuttiError} NOT_READY
 */
export function checkTakesJobs({ registry }: Pick<ActorRuntime, "registry">, { spec, lease }: CatalogModel): void {
  const isOlder = (role: Role): boolean =>
    registry.some(role, ({ key, takesJobs }) => takesJobs !== true && (role === "executor" || key === lease?.batcher));
  if (!isOlder("batcher") && !isOlder("executor")) return;
  const text = `"${spec.name}" takes no jobs for now: some of the cluster's processes are of a release without them`;
  throw new TuttiError("TUTTI_NOT_READY", text, { retryAfterMs: RETRY_MS });
}

export const leavingError = (): TuttiError =>
  new TuttiError("TUTTI_UNAVAILABLE", "this ingress is leaving, and jobs may take long: send it again", {
    retryAfterMs: RETRY_MS,
  });
