/** The streams of background jobs, as JetStream is asked to make them: settings that nats-server 2.9 knows too. */
import {
  AckPolicy,
  type ConsumerConfig,
  DiscardPolicy,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
} from "@nats-io/jetstream";
import {
  DEAD_JOBS_BYTES_MAX,
  DEAD_JOBS_STREAM,
  DEAD_JOBS_SUBJECT,
  JOBS_BYTES_MAX,
  JOBS_STREAM,
  JOB_BYTES_MAX,
  JOB_DEADLINE_US_MAX,
  JOB_DUPLICATE_US_MAX,
  JOB_RESULTS_BYTES_MAX,
  JOB_USES_BYTES_MAX,
  JOB_USES_STREAM,
  JOB_USES_SUBJECT,
  QUEUED_JOBS_SUBJECT,
  RESULTS_BUCKET,
  RESULTS_STREAM,
  queuedJobsOf,
} from "@tutti/protocol";

const DAY_NS = 86_400e9;
/** Longer than any deadline, so that a job that nobody could run becomes a dead letter before the queue drops it. */
const QUEUE_AGE_NS = JOB_DEADLINE_US_MAX * 1_000 + DAY_NS;
const RESULTS_AGE_NS = 7 * DAY_NS;
const DEAD_AGE_NS = 30 * DAY_NS;
/** A job that isn't extended for so long was held by a runner that died. */
export const ACK_WAIT_MS = 30_000;
/** A consumer without a runner is removed after this time, and made again for the next job of its model. */
const IDLE_NS = 3_600e9;

type NewStream = Partial<StreamConfig> & { readonly name: string };

/**
 * A full stream refuses what is new: a queue that dropped the oldest job, result or dead letter would lose what it had
 * promised to keep.
 */
export function jobStreams(replicas: number): readonly NewStream[] {
  const common = { storage: StorageType.File, num_replicas: replicas, discard: DiscardPolicy.New };
  return [
    {
      ...common,
      name: JOBS_STREAM,
      subjects: [QUEUED_JOBS_SUBJECT],
      retention: RetentionPolicy.Workqueue,
      max_age: QUEUE_AGE_NS,
      max_bytes: JOBS_BYTES_MAX,
      max_msg_size: JOB_BYTES_MAX,
      duplicate_window: JOB_DUPLICATE_US_MAX * 1_000,
    },
    {
      ...common,
      name: RESULTS_STREAM,
      // A KV bucket, so that `nats kv get` and every client library can read it.
      subjects: [`$KV.${RESULTS_BUCKET}.>`],
      max_msgs_per_subject: 1,
      max_age: RESULTS_AGE_NS,
      max_bytes: JOB_RESULTS_BYTES_MAX,
      allow_rollup_hdrs: true,
      deny_delete: true,
      allow_direct: true,
    },
    {
      ...common,
      name: DEAD_JOBS_STREAM,
      subjects: [DEAD_JOBS_SUBJECT],
      max_age: DEAD_AGE_NS,
      max_bytes: DEAD_JOBS_BYTES_MAX,
      duplicate_window: JOB_DUPLICATE_US_MAX * 1_000,
    },
    {
      ...common,
      name: JOB_USES_STREAM,
      subjects: [JOB_USES_SUBJECT],
      max_age: RESULTS_AGE_NS,
      max_bytes: JOB_USES_BYTES_MAX,
      // Nobody was promised these: a runner goes on without the oldest.
      discard: DiscardPolicy.Old,
    },
  ];
}

/** The consumer of a model, which all runners share: the server divides the jobs among them. */
export const consumerName = (model: string): string =>
  // A version's name has a slash, which a consumer's may not have.
  `model-${model.replace("/", "=")}`;

export const jobConsumer = (model: string, inFlightMax: number): Partial<ConsumerConfig> => ({
  name: consumerName(model),
  durable_name: consumerName(model),
  filter_subject: queuedJobsOf(model),
  ack_policy: AckPolicy.Explicit,
  ack_wait: ACK_WAIT_MS * 1e6,
  // Runners count the tries: a message beyond the server's own limit would stay in the queue, unseen.
  max_deliver: -1,
  max_ack_pending: inFlightMax,
  inactive_threshold: IDLE_NS,
});
