export type { DeadJob, JobAdministration, JobQueue, ModelBacklog, QueuedJob, StoredResult } from "./job-queue.ts";
