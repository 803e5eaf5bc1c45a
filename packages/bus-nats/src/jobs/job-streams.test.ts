import { JOB_BYTES_MAX, JOB_DEADLINE_US_MAX } from "@tutti/protocol";
import { expect, test } from "vitest";
import { consumerName, jobConsumer, jobStreams } from "./job-streams.ts";

test("the streams keep what they promised: full ones refuse what is new, and the queue outlasts every deadline", () => {
  const streams = jobStreams(3);
  expect(streams.map(({ name, discard, num_replicas }) => [name, discard, num_replicas])).toEqual([
    ["tutti_jobs", "new", 3],
    ["KV_tutti_results", "new", 3],
    ["tutti_dead_jobs", "new", 3],
    ["tutti_job_uses", "old", 3],
  ]);
  expect(streams.map(({ max_bytes }) => max_bytes)).toEqual([
    ...[1_073_741_824, 1_073_741_824, 268_435_456, 67_108_864],
  ]);
  expect(streams[0]).toMatchObject({ subjects: ["jobqueue.*.*.*"], max_msg_size: JOB_BYTES_MAX });
  expect(streams[0]!.max_age).toBeGreaterThan(JOB_DEADLINE_US_MAX * 1_000);
  expect(streams[1]!.max_msgs_per_subject).toBe(1);
  expect(streams[3]!.max_age).toBe(streams[1]!.max_age); // what results take is forgotten with them
});

test("a consumer's name has no slash, and no two models share one", () => {
  expect(["mlp", "mlp/2", "mlp-2", "mlp_2"].map(consumerName)).toEqual([
    ...["model-mlp", "model-mlp=2", "model-mlp-2", "model-mlp_2"],
  ]);
  expect(jobConsumer("mlp/2", 7)).toMatchObject({
    filter_subject: "jobqueue.mlp/2.*.*",
    max_ack_pending: 7,
    max_deliver: -1,
  });
});
