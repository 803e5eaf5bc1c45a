/** Encoded messages and stored values, one sample or more of each, and the codecs that read and write them. */
import {
  type CheckedMessage,
  type MessageType,
  type ModelSpec,
  type PullRequest,
  type ResultBatch,
  type Tensor,
  TuttiError,
  errorBody,
} from "@tutti/protocol";
import { actorKey, micros, millis } from "@tutti/units";
import { decodeLinkMessage, encodeLinkMessage } from "@tutti/pull-tcp";
import {
  type DecodedFrame,
  type Form,
  FrameReader,
  FrameWriter,
  decodeAnswer,
  decodeFrame,
  decodeRequest,
  encodeAnswer,
  encodeFragments,
  encodeHello,
  encodePull,
  encodeReply,
  encodeRequest,
  encodeResults,
  encodeTensors,
  encodeWelcome,
  fromJson,
  isFrameFault,
  joinFrame,
  readStored,
  toJson,
  writeStored,
} from "@tutti/wire";
import { echoModel } from "../fixtures/actor-cluster/echo-model.ts";
import { MESSAGES, STORED, sampleOf, sampleOfFields } from "./release-forms.ts";

export interface Codec {
  /** @throws what can't be read */
  decode(bytes: Uint8Array): unknown;
  encode(value: never): Uint8Array;
  /** Values that it encodes for a new release. */
  readonly samples: readonly unknown[];
}

const SENDER = actorKey(77_777);
const AT = 1_790_000_000_000_000;
const TOKEN = new Uint8Array(16).fill(9);
const TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/** Samples for which the rules between their parts count. */
const RULED: Readonly<Record<string, object>> = {
  "process-ordered": { order: "split", size: 40 },
  "stats-reported": {
    batches: { left: 1, rows: [65, 1, 4, 0, 9_000, 5_000, 4_000, 1_000] },
    arrivals: { every: 1, left: 0, streams: [{ model: "mlp", app: "camera", slo: 30_000 }], rows: [0, 900] },
  },
};

function messageCodec(type: MessageType<unknown>): Codec {
  const { fields, name } = type;
  const sample =
    fields === undefined
      ? { ...(sampleOf((type as CheckedMessage<unknown>).accepts.form) as object), ...RULED[name] }
      : sampleOfFields(fields);
  return {
    samples: [sample],
    encode: (value: unknown) => {
      const writer = new FrameWriter(SENDER);
      writer.add(type, value);
      return writer.take().slice();
    },
    decode: (bytes) => {
      let read: unknown;
      const fault = new FrameReader().on(type, (value) => (read = value)).read(bytes);
      if (fault !== undefined) throw new Error(fault.fault);
      if (read === undefined) throw new Error("another message");
      if (fields === undefined && !(type as CheckedMessage<unknown>).accepts(read)) throw new Error("not accepted");
      return read;
    },
  };
}

const TIMES = { samples: 40, edges: [1_000, 1_500.5, 3_000], masses: [0.25, 0.75] };
const APP_TIMES = { ...TIMES, app: 7, name: "camera", share: 1, mean: 2_000, p50: 1_900, p99: 2_990 };
const BESIDE = { name: "mlp", number: 2, version: "1" };
const MODEL: ModelSpec = {
  ...echoModel({ name: "mlp", number: 2, slo: millis(50), batchSizeMax: 8, latency: () => millis(1) }),
  inputs: [{ name: "x", type: "FP32", dims: ["batch", "W"] }],
  axes: { W: { mode: "pad", sizes: [64], padValue: 1, padValues: { x: 2 }, multiple: 4, typical: 8, mixed: false } },
  buckets: [{}],
  made: [{ name: "mask", type: "FP32", dims: ["batch", "W"], made: "mask", axis: "W" }],
  cuts: { T: { axis: "W", divide: 8, add: 3 } },
  shares: { camera: 3, "*": 1 },
  priorityFloor: 0.2,
  runDeadline: millis(900),
  scaleToZero: { idle: micros(10_000_000), coldStart: micros(500_000) },
  file: { object: "sha256-ab", sha256: "ab", bytes: 96 },
  samples: "sha256-cd",
};
/** Stored values whose parts depend on each other; of the others any accepted value will do. */
const VALUES: Readonly<Record<string, object>> = {
  model: MODEL,
  "running times": {
    ...BESIDE,
    buckets: [
      {
        kind: "dynamic",
        apps: [{ ...APP_TIMES, byUnits: [10, 11].map((upTo) => ({ ...TIMES, upTo })) }],
        pool: { ...APP_TIMES, app: 0, name: "" },
        costs: [1, 2, 4].map((batchSize) => ({ batchSize, fixed: 10.5, slope: batchSize / 2 })),
        costSamples: 9,
      },
    ],
  },
  placement: {
    ...{ epoch: 3, madeAt: AT, gpus: [{ gpu: 0, subCluster: "main" }] },
    models: [{ number: 1, subCluster: "main", next: "s1" }],
    parked: [{ number: 2, since: AT, next: "main" }],
  },
  route: {
    name: "mlp",
    states: [
      {
        ...{ at: AT, by: "operator", why: "a trial", default: "1", slices: [{ version: "2", from: 0, to: 100 }] },
        shadow: { version: "3", percent: 5 },
        ramp: {
          ...{ version: "2", steps: [10, 100], step: 0, startedAt: AT, over: 60_000_000, steppedAt: AT },
          ...{ badMax: 0.1, mismatchMax: 0.1 },
        },
      },
    ],
  },
};

const PULL: PullRequest = { executor: 5, gpu: 1, thread: 64, batchId: 3, batcher: 6, token: TOKEN, seqs: [1, 2, 3] };
const TENSORS: readonly Tensor[] = [
  { name: "x", type: "FP32", dims: [1, 3], data: new Uint8Array(new Float32Array([1, 2, 3]).buffer) },
  { name: "flag", type: "BOOL", dims: [1], data: new Uint8Array([1]) },
];
const RESULTS = {
  ...{ executor: 5, gpu: 1, thread: 64, batchId: 3, batcher: 6, token: TOKEN, batchSize: 2 },
  ...{ startedAt: AT, finishedAt: AT + 4_000, run: 3_900, trace: TRACE },
  items: [
    { seq: 1, outputs: encodeTensors(TENSORS), code: 0, text: "" },
    { seq: 2, outputs: undefined, code: 3, text: "Grüße" },
  ],
} as unknown as ResultBatch;

const DATA: Codec = {
  samples: [
    ...[encodeHello(5, 6, TOKEN), encodeWelcome(6, TOKEN), encodePull(PULL, 7), encodeReply(undefined, 8)[0]!],
    ...encodeReply([{ seq: 1, row: new Uint8Array(8).fill(1), traceparent: TRACE }], 8),
    ...encodeResults(RESULTS),
  ].map((frame) => decodedFrame(joinFrame(frame))),
  decode: decodedFrame,
  encode: (frame: DecodedFrame) => joinFrame(encodedFrame(frame)),
};
function decodedFrame(bytes: Uint8Array): DecodedFrame {
  const frame = decodeFrame(bytes);
  if (isFrameFault(frame)) throw new Error(frame.fault);
  return frame;
}
function encodedFrame(frame: DecodedFrame) {
  switch (frame.kind) {
    case "hello":
      return encodeHello(frame.executor, frame.ingress, frame.proof);
    case "welcome":
      return encodeWelcome(frame.ingress, frame.proof);
    case "pull":
      return encodePull(frame.pull, frame.correlation);
    case "reply":
      return encodeReply(frame.forbidden ? undefined : frame.items, frame.correlation)[0]!;
    case "results":
      return encodeResults(frame.results)[0]!;
    case "fragment":
      throw new Error("fragments have a codec of their own");
  }
}
const FRAGMENT: Codec = {
  samples: encodeFragments(encodeResults(RESULTS)[0]!, 5, 9, 1_024).map(decodedFrame),
  decode: decodedFrame,
  encode: ({ piece, sender, correlation }: Extract<DecodedFrame, { kind: "fragment" }>) =>
    encodeFragments({ head: piece, body: [], byteLength: piece.byteLength }, sender, correlation, 1_024)[0]!,
};

const requestCodec = (form: Form): Codec => ({
  samples: [{ inputs: TENSORS, ...(form !== "binary" && { id: "a-17", outputs: ["y"], parameters: { priority: 3 } }) }],
  decode: (bytes) => decodeRequest(form, bytes),
  encode: (request: never) => encodeRequest(form, request),
});
const answerCodec = (form: Form): Codec => ({
  samples: [
    form === "binary"
      ? { model: "", version: "", outputs: TENSORS } // both are in headers
      : { model: "mlp", version: "1", id: "a-17", outputs: TENSORS },
  ],
  decode: (bytes) => decodeAnswer(form, bytes),
  encode: ({ outputs, ...rest }: ReturnType<typeof decodeAnswer>) =>
    encodeAnswer(form, { ...rest, tensors: encodeTensors(outputs) }),
});

/** Codecs by what they carry. */
export const CODECS: Readonly<Record<string, Codec>> = {
  ...Object.fromEntries(MESSAGES.map((type) => [`message ${type.name}`, messageCodec(type)])),
  ...Object.fromEntries(
    STORED.map((kind): [string, Codec] => [
      `stored ${kind.kind}`,
      {
        samples: [VALUES[kind.kind] ?? sampleOf(kind.form)],
        encode: (value: never) => writeStored(kind, value),
        decode(bytes) {
          const value = readStored(bytes, kind);
          if (value === undefined) throw new Error("unreadable");
          return value;
        },
      },
    ]),
  ),
  "data frame": DATA,
  "data frame in fragments": FRAGMENT,
  ...Object.fromEntries(
    (["json", "msgpack", "binary"] as const).flatMap((form) => [
      [`request in ${form}`, requestCodec(form)],
      [`answer in ${form}`, answerCodec(form)],
    ]),
  ),
  error: {
    samples: [errorBody(new TuttiError("TUTTI_OVERLOADED", "too many requests"))],
    decode: fromJson,
    encode: (value: unknown) => toJson(value),
  },
  "message of a link": {
    samples: [
      { kind: "message", subject: "infer.mlp.camera", reply: "_INBOX.a", headers: { a: "ö" }, payload: TOKEN },
      { kind: "interest", pattern: "infer.*.*", exclusive: false },
      { kind: "ready", inbox: "_INBOX.b" },
    ],
    decode: (bytes) => decodeLinkMessage(Buffer.from(bytes).subarray(4)),
    encode: (message: never) => joinFrame(encodeLinkMessage(message)),
  },
};

/** A decoded value as JSON has it: bytes as text, undefined left out. */
export const plain = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value, (_, member: unknown) =>
      member instanceof Uint8Array ? `hex ${Buffer.from(member).toString("hex")}` : member,
    ),
  );
