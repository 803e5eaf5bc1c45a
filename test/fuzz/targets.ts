/**
 * Every reader of bytes from outside, with real messages to start from. `read` returns what it decodes, or throws its
 * typed refusal; any other exception is a fault.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { rowBuffer } from "@tutti/executor";
import { FrameIntake, readCredentials } from "@tutti/bus-nats";
import { AuthDirectory } from "@tutti/admin/auth";
import { meanOf } from "@tutti/dynamic";
import { asHistogram, costsOf } from "@tutti/profile";
import * as protocol from "@tutti/protocol";
import {
  type CheckedMessage,
  type MessageType,
  type ModelRunTimes,
  type ModelSpec,
  type PullRequest,
  type ResultBatch,
  type Tensor,
  TuttiError,
  isModelRunTimes,
  isModelSpec,
  isModelStatus,
  isPlacement,
  rowLayout,
  variantInput,
  variantView,
} from "@tutti/protocol";
import { FrameAssembler, ReceiveBudget } from "@tutti/pull-tcp";
import { actorKey, instant, micros, millis } from "@tutti/units";
import {
  FrameReader,
  FrameWriter,
  type Form,
  decodeAnswer,
  decodeFrame,
  decodeRequest,
  decodeTensors,
  encodeAnswer,
  encodeFragments,
  encodeHello,
  encodePull,
  encodeReply,
  encodeRequest,
  encodeResults,
  encodeTensors,
  encodeWelcome,
  fillRow,
  formOf,
  fromJson,
  joinFrame,
  pack,
  toJson,
  unpack,
} from "@tutti/wire";
import { echoModel } from "../fixtures/actor-cluster/echo-model.ts";
import { sampleOf } from "./samples.ts";

export interface Target {
  readonly name: string;
  readonly samples: readonly Uint8Array[];
  read(bytes: Uint8Array): unknown;
  /**
   * Where the bytes encode a value: the encoding of the value that `change` returns. So readers are tried behind the
   * syntax as well.
   */
  reform?(sample: Uint8Array, change: (value: unknown) => unknown): Uint8Array;
  /** Bytes that it may allocate beside those that the message's own length justifies. */
  readonly room?: number;
  /** Opens files: runs a twentieth of the cases. */
  readonly slow?: true;
}

const inJson = (sample: Uint8Array, change: (value: unknown) => unknown): Uint8Array =>
  toJson(change(fromJson(sample)));
const inMsgpack = (sample: Uint8Array, change: (value: unknown) => unknown): Uint8Array => pack(change(unpack(sample)));
const REFORMS = { json: inJson, msgpack: inMsgpack, binary: undefined } as const;

/** Changes the packed message behind the header of its frame and record. */
function inFrame(sample: Uint8Array, change: (value: unknown) => unknown): Uint8Array {
  const tag = new DataView(sample.buffer, sample.byteOffset).getUint16(16, true);
  const type = TYPES.find((candidate) => candidate.tag === tag);
  if (type === undefined || type.fields !== undefined) return sample;
  const writer = new FrameWriter(SENDER);
  writer.add(type, change(sampleOf(type)));
  return new Uint8Array(writer.take());
}

const SENDER = actorKey(77_777);
const TYPES = Object.values<unknown>(protocol).filter(
  (value): value is MessageType<unknown> => typeof value === "object" && value !== null && "tag" in value,
);

// ---- control frames

function frameReader(): FrameReader {
  const reader = new FrameReader();
  for (const type of TYPES)
    reader.on(type, (value) => {
      if ("accepts" in type) (type as CheckedMessage<unknown>).accepts(value);
    });
  return reader;
}

function frameOf(...types: readonly MessageType<unknown>[]): Uint8Array {
  const writer = new FrameWriter(SENDER);
  for (const type of types) writer.add(type, sampleOf(type));
  return new Uint8Array(writer.take());
}

// ---- tensors

const floats = (...values: number[]): Uint8Array => new Uint8Array(new Float32Array(values).buffer);
const TENSORS: readonly Tensor[] = [
  { name: "x", type: "FP32", dims: [1, 3], data: floats(1, 2, 3) },
  { name: "ids", type: "INT64", dims: [1, 2], data: new Uint8Array(16).fill(3) },
  { name: "flag", type: "BOOL", dims: [1], data: new Uint8Array([1]) },
];
const FORMS: readonly Form[] = ["json", "msgpack", "binary"];

const TIMES = { samples: 40, edges: [1_000, 1_500.5, 3_000], masses: [0.25, 0.75] };
const APP_TIMES = { ...TIMES, app: 7, name: "camera", share: 1, mean: 2_000, p50: 1_900, p99: 2_990 };
const RUN_TIMES: ModelRunTimes = {
  ...{ name: "wide", number: 2, version: "1" },
  buckets: [
    {
      kind: "dynamic",
      apps: [{ ...APP_TIMES, byUnits: [TIMES, TIMES].map((times, i) => ({ ...times, upTo: 10 + i })) }],
      pool: { ...APP_TIMES, app: 0, name: "" },
      costs: [1, 2, 4].map((batchSize) => ({ batchSize, fixed: 10.5, slope: batchSize / 2 })),
      costSamples: 9,
    },
  ],
  learned: {
    at: instant(1_790_000_000_000_000),
    sizes: [
      {
        bucket: 0,
        type: "cpu",
        batchSize: 1,
        given: 900,
        learned: 1_100,
        spread: { runs: 9, p10: 1, p50: 2.5, p90: 3 },
      },
      { bucket: 0, type: "cpu", batchSize: 2, given: 1_000, learned: 1_200 },
    ],
  },
};

/** A model with a variable axis: short inputs grow to a bucket, of 4,096 elements at most. */
const BUCKETED: ModelSpec = {
  ...echoModel({ name: "wide", number: 2, slo: millis(50), batchSizeMax: 8, latency: () => millis(1) }),
  inputs: [
    { name: "x", type: "FP32", dims: ["batch", "W"] },
    { name: "ids", type: "INT64", dims: ["batch", 2] },
  ],
  axes: { W: { mode: "bucket", sizes: [4, 64, 1_024], padValue: 0 } },
  buckets: [{ W: 4 }, { W: 64 }, { W: 1_024 }],
};

/** A model whose rows keep their lengths: masks and lengths are made, an output is cut. */
const PADDED: ModelSpec = {
  ...BUCKETED,
  axes: { W: { mode: "pad", sizes: [64], padValue: 1, padValues: { x: 2 }, multiple: 4, typical: 8, mixed: false } },
  buckets: [{}],
  made: [
    { name: "mask", type: "FP32", dims: ["batch", "W"], made: "mask", axis: "W" },
    { name: "lengths", type: "INT64", dims: ["batch"], made: "lengths", axis: "W" },
  ],
  cuts: { T: { axis: "W", divide: 8, add: 3 } },
};

/** Variants whose rows share batches: prefix and suffixes in one file. */
const FAMILY: ModelSpec = {
  ...BUCKETED,
  inputs: [...BUCKETED.inputs, variantInput()],
  outputs: [],
  file: { object: "f", sha256: "s", bytes: 96 },
  family: {
    prefix: { offset: 0, bytes: 64, nodes: 3, inputs: ["x"], cut: [{ name: "h", batchAxis: 0 }] },
    variants: ["a", "b"].map((name, i) => ({
      ...{ name, version: "1", slo: millis(50), outputs: BUCKETED.outputs },
      suffix: { offset: 64 + 16 * i, bytes: 16, nodes: 1, inputs: ["ids"], feeds: [{ from: "h", to: "h" }] },
    })),
  },
};

function readRequest(form: Form, bytes: Uint8Array): unknown {
  const request = decodeRequest(form, bytes);
  try {
    return fillRow(BUCKETED, request);
  } catch (error) {
    if (!(error instanceof TuttiError)) throw error;
    return request;
  }
}

const samplesOfRequest = (form: Form): Uint8Array[] => [
  encodeRequest(form, { inputs: TENSORS }),
  encodeRequest(form, { inputs: TENSORS.slice(0, 2) }),
  ...(form === "binary" ? [] : [encodeRequest(form, { inputs: TENSORS, id: "a-17", outputs: ["y"] })]),
];

// ---- the data plane

const TOKEN = new Uint8Array(16).fill(9);
const PULL: PullRequest = { executor: 5, gpu: 1, thread: 64, batchId: 3, batcher: 6, token: TOKEN, seqs: [1, 2, 3] };
const RESULTS: ResultBatch = {
  ...{ executor: 5, gpu: 1, thread: 64, batchId: 3, batcher: 6, token: TOKEN, batchSize: 2 },
  startedAt: instant(1_790_000_000_000_000),
  finishedAt: instant(1_790_000_000_004_000),
  run: micros(3_900),
  items: [
    { seq: 1, outputs: encodeTensors(TENSORS), code: 0, text: "" },
    { seq: 2, outputs: undefined, code: 3, text: "Grüße" },
  ],
};
const REPLY = encodeReply(
  [
    { seq: 1, row: floats(1, 2), traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" },
    { seq: 2, row: undefined, traceparent: "" },
  ],
  8,
);
const DATA_FRAMES = [
  joinFrame(encodeHello(5, 6, TOKEN)),
  joinFrame(encodeWelcome(6, TOKEN)),
  joinFrame(encodePull(PULL, 7)),
  ...REPLY.map(joinFrame),
  ...encodeResults(RESULTS).map(joinFrame),
  ...encodeFragments(encodeResults(RESULTS)[0]!, 5, 9, 128),
];

const STREAM_BUDGET_BYTES = 1_048_576;
/** Reads the bytes as a socket delivers them: in pieces that end anywhere. */
function readStream(bytes: Uint8Array): unknown {
  const assembler = new FrameAssembler();
  assembler.admit(new ReceiveBudget(STREAM_BUDGET_BYTES), STREAM_BUDGET_BYTES);
  const decoded: unknown[] = [];
  for (let at = 0, piece = 1; at < bytes.byteLength; at += piece, piece = (piece * 7) % 1_021) {
    const goesOn = assembler.take(bytes.subarray(at, at + piece), (frame) => {
      decoded.push(decodeFrame(new Uint8Array(frame)));
      return true;
    });
    if (!goesOn) break;
  }
  return decoded;
}

function readFragments(bytes: Uint8Array): unknown {
  const decoded: unknown[] = [];
  const intake = new FrameIntake(
    () => undefined,
    (frame) => void decoded.push(frame),
  );
  const delivery = { subject: "s", reply: undefined, header: () => undefined };
  intake.take({ ...delivery, payload: bytes });
  intake.take({ ...delivery, payload: DATA_FRAMES.at(-1)! });
  return decoded;
}

// ---- values of the store, and files

const STATUS = {
  ...{ name: "wide", number: 2, version: "1", state: "ready", reason: "", executorTypes: ["cpu"] },
  profiles: [[{ batchSize: 1, latency: 100 }]],
  means: [[{ batchSize: 1, latency: 90 }]],
};

function readSpec(bytes: Uint8Array): unknown {
  const value = fromJson(bytes);
  if (!isModelSpec(value)) return undefined;
  // An accepted specification must serve: a request that doesn't fit it is refused, and no other exception is thrown.
  for (let bucket = 0; bucket < value.buckets.length; bucket++) rowLayout(value, bucket);
  const asked = value.family === undefined ? value : variantView(value, value.family.variants.length - 1);
  const { bucket, row } = fillRow(asked, { inputs: TENSORS.slice(0, 2) });
  const buffer = rowBuffer(value, bucket, 2);
  return buffer.add(row) && buffer.parts();
}

const folder = mkdtempSync(join(tmpdir(), "tutti-fuzz-"));
/** Removes the folder into which some targets write files. */
export const cleanUp = (): void => rmSync(folder, { recursive: true, force: true });
process.on("exit", cleanUp); // a test runner's worker is killed before this event
const asFile =
  (name: string, read: (path: string) => unknown) =>
  (bytes: Uint8Array): unknown => {
    writeFileSync(join(folder, name), bytes);
    return read(name === "auth.json" ? folder : join(folder, name));
  };

const AUTH = {
  ...{ version: 1, cluster: "main", routePassword: "x", users: [{ name: "ingress", publicKey: "UABC" }], revoked: [] },
  servers: [{ name: "n", host: "127.0.0.1", port: 4222, routePort: 6222 }],
};

export const TARGETS: readonly Target[] = [
  {
    name: "control frames",
    samples: [...TYPES.map((type) => frameOf(type)), frameOf(...TYPES)],
    read: (bytes) => frameReader().read(bytes),
    reform: inFrame,
    // A reader keeps one handler per tag; tokens are copied, 16 bytes each.
    room: 65_536,
  },
  { name: "data frames", samples: DATA_FRAMES, read: decodeFrame },
  {
    name: "a stream of data frames",
    samples: [Buffer.concat(DATA_FRAMES), ...DATA_FRAMES],
    read: readStream,
    // An announced frame is allocated at once, from the budget; a connection has 64 KB beside it.
    room: 2 * STREAM_BUDGET_BYTES,
  },
  { name: "fragments over NATS", samples: DATA_FRAMES, read: readFragments },
  {
    name: "msgpack",
    samples: [pack({ a: [1, "b", { c: TOKEN }] }), pack(STATUS), pack(RESULTS)],
    read: unpack,
    reform: inMsgpack,
  },
  ...FORMS.map((form) => ({
    name: `requests in ${form}`,
    samples: samplesOfRequest(form),
    read: (bytes: Uint8Array) => readRequest(form, bytes),
    ...(REFORMS[form] && { reform: REFORMS[form] }),
    // Room for the row of the largest bucket.
    room: 16_384,
  })),
  ...FORMS.map((form) => ({
    name: `answers in ${form}`,
    samples: [encodeAnswer(form, { model: "m", version: "1", id: "a", tensors: encodeTensors(TENSORS) })],
    read: (bytes: Uint8Array) => decodeAnswer(form, bytes),
    ...(REFORMS[form] && { reform: REFORMS[form] }),
  })),
  {
    name: "requests whose form nobody named",
    samples: FORMS.flatMap(samplesOfRequest),
    read: (bytes) => {
      const form = formOf(undefined, bytes);
      return form && readRequest(form, bytes);
    },
    room: 16_384,
  },
  { name: "tensors", samples: [encodeTensors(TENSORS), encodeTensors([])], read: decodeTensors },
  {
    name: "models in the store",
    samples: [toJson(BUCKETED), toJson(PADDED), toJson(FAMILY)],
    read: readSpec,
    reform: inJson,
    room: 67_108_864,
  },
  {
    name: "statuses in the store",
    samples: [toJson(STATUS)],
    read: (bytes) => isModelStatus(fromJson(bytes)),
    reform: inJson,
  },
  {
    name: "the placement in the store",
    samples: [
      toJson({
        ...{ epoch: 3, madeAt: 1_790_000_000_000_000, gpus: [{ gpu: 0, subCluster: "main" }] },
        models: [{ number: 1, subCluster: "main", next: "s1" }],
      }),
    ],
    read: (bytes) => isPlacement(fromJson(bytes)),
    reform: inJson,
  },
  {
    name: "running times in the store",
    samples: [toJson(RUN_TIMES)],
    // Accepted run times are planned with: they must not stop a batcher.
    read: (bytes) => {
      const value = fromJson(bytes);
      if (!isModelRunTimes(value)) return false;
      for (const { apps, costs } of value.buckets) {
        for (const times of apps) meanOf(asHistogram(times));
        costsOf(costs)(3);
      }
      return true;
    },
    reform: inJson,
  },
  {
    name: "credentials",
    samples: [Buffer.from(`# ingress\n# inbox-prefix: _INBOX_ingress\nSU${"A".repeat(56)}\n`)],
    read: asFile("user.nk", readCredentials),
    slow: true,
  },
  {
    name: "auth.json",
    samples: [toJson(AUTH)],
    read: asFile("auth.json", (path) => AuthDirectory.open(path)),
    reform: inJson,
    slow: true,
  },
];
