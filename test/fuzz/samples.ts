/** A message of each declared type as an actor might send it, for mutations to start from. */
import type { Field, FieldKind, Fields, MessageType } from "@tutti/protocol";

const AT = 1_790_000_000_000_000;

const VALUES: Readonly<Record<Exclude<FieldKind, "list">, unknown>> = {
  u8: 3,
  u16: 300,
  u32: 65,
  f64: 77_777,
  flag: true,
  token: new Uint8Array(16).fill(9),
  text: "00-0af7651916cd43dd8448eb211c80319c",
};

const valueOf = ({ kind, of }: Field<unknown>): unknown =>
  kind === "list" ? [recordOf(of ?? {}), recordOf(of ?? {})] : VALUES[kind];
const recordOf = (fields: Fields): Record<string, unknown> =>
  Object.fromEntries(Object.entries(fields).map(([name, of]) => [name, valueOf(of)]));

const GPU = { gpu: 1, freeAt: AT, epoch: 3, grantSeq: 4, subCluster: "main", serving: true, type: "cpu" };
const OFFER = {
  thread: 64,
  batchSize: 4,
  term: 2,
  offerSeq: 9,
  execAt: AT,
  latest: AT + 1,
  delay: 500,
  unfit: [{ type: 9 }],
};
const PROCESS = { name: "batcher", role: "batcher", pid: 7, actor: "x1", phase: "ready", restarts: 0 };

/** The members of all packed messages together: each reader takes those that it knows. */
const PACKED = {
  ...{ key: 77_777, role: "executor", host: "h", pid: 7, sentAt: AT, startedAt: AT, leaving: false, epoch: 3 },
  address: { host: "127.0.0.1", port: 4_223, tls: false },
  arrivals: [{ thread: 64, term: 2, arrivalSeq: 5 }],
  offers: [OFFER],
  gpus: [GPU],
  ...{ subCluster: "main", executor: 77_777, ingress: 77_777, secret: new Uint8Array(32).fill(1), respond: 300 },
  ...{ type: "cpu", model: "m", number: 1, version: "1", state: "loaded", reason: "", memoryBytes: 1 },
  ...{ profiler: 77_777, gpu: 1, bucket: 0, batchSizes: [1, 2], runs: 3, budget: 1_000, failure: "" },
  samples: [{ batchSize: 1, runs: [100, 101], app: 7, units: 2.5, alone: 900 }],
  ...{ batchId: 9, thread: 64, what: "all", rows: [{ ingress: 77_777, seq: 3, app: 7, units: 2.5 }] },
  ...{ grantSeq: 4, takes: 900, validUntil: AT, until: AT + 900, apps: [{ app: 7, count: 3 }] },
  batches: [{ batchSize: 4, alone: 900, took: 2_000 }],
  ...{ memoryBytesMax: 2, models: [{ number: 1, version: "1", memoryBytes: 1 }] },
  ...{ at: AT, figures: { held: 1 }, advice: 1, badRate: 0.01, idleShare: 0.2 },
  perThread: [{ thread: 64, name: "m", figures: { queued: 1 } }],
  perGpu: [{ gpu: 1, figures: { busy: 0.5 } }],
  ...{ ask: 1, agent: 77_777, order: "restart", process: "batcher", within: 1_000, back: 10, follow: false },
  ...{ text: "done", end: false, left: 0, lines: [{ at: AT, text: "a line" }], processes: [PROCESS] },
};

export const sampleOf = (type: MessageType<unknown>): unknown =>
  type.fields === undefined ? PACKED : recordOf(type.fields);
