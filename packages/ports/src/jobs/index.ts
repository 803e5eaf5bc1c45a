export type {
  DeadJob,
  DeadUse,
  JobAdministration,
  JobQueue,
  KeptResult,
  LettersByCode,
  ModelBacklog,
  QueueUse,
  QueuedJob,
  StoredResult,
  StreamUse,
} from "./job-queue.ts";
