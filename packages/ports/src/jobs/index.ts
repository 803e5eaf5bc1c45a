export type {
  DeadJob,
  JobAdministration,
  JobQueue,
  KeptResult,
  ModelBacklog,
  QueuedJob,
  StoredResult,
} from "./job-queue.ts";
