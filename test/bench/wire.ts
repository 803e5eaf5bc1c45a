/**
 * Nanoseconds to encode and decode the most frequent messages: `node test/bench/wire.ts`. Prints JSON. CPU time, and
 * the best of some rounds: other load on a machine only adds.
 */
import {
  BatchDispatched,
  BatchFinished,
  CandidateOffered,
  GpuGranted,
  type MessageType,
  RequestArrived,
} from "@tutti/protocol";
import { type RequestSeq, actorKey } from "@tutti/units";
import {
  FrameReader,
  FrameWriter,
  decodeRequest,
  decodeTensors,
  encodeAnswer,
  encodeRequest,
  encodeTensors,
} from "@tutti/wire";

const ROUNDS = 7;

/** Best nanoseconds per unit of `run`, which does `units` of them. */
function nanoseconds(run: () => void, units = 1): number {
  let calls = 1;
  let best = Infinity;
  for (let round = -3; round < ROUNDS; round++) {
    const start = process.cpuUsage();
    for (let i = 0; i < calls; i++) run();
    const { user, system } = process.cpuUsage(start);
    const elapsed = (user + system) / 1_000;
    if (round < 0) calls = Math.max(1, Math.ceil((calls * 20) / Math.max(elapsed, 0.001)));
    else best = Math.min(best, (elapsed * 1e6) / calls / units);
  }
  return Math.round(best);
}

const AT = 1_790_000_000_000_000;
function example<T>(type: MessageType<T>, lists: Partial<T> = {}): T {
  const names = Object.keys(type.fields ?? {});
  return Object.fromEntries(
    names.map((name, i) => [name, lists[name as keyof T] ?? (/At$|Until|deadline|latest/.test(name) ? AT + i : i + 1)]),
  ) as T;
}
const ingresses = [0, 1].map((i) => ({ ingress: actorKey(2 ** 40 + i), token: new Uint8Array(16).fill(i), count: 8 }));
const requests = Array.from({ length: 16 }, (_, i) => ({ seq: (1_000_000 + i) as RequestSeq }));
const messages: [MessageType<unknown>, unknown][] = [
  [RequestArrived, example(RequestArrived)],
  [CandidateOffered, example(CandidateOffered, { unfit: [] })],
  [GpuGranted, example(GpuGranted)],
  [BatchFinished, example(BatchFinished)],
  [BatchDispatched, example(BatchDispatched, { ingresses, requests })],
];

const SENDER = actorKey(2 ** 41 + 7);
const PER_FRAME = 64;
let sink: unknown;
const reader = new FrameReader();
for (const [type] of messages) reader.on(type, (value) => (sink = value));

function records(): object[] {
  const writer = new FrameWriter(SENDER);
  const fill = (type: MessageType<unknown>, value: unknown): Uint8Array => {
    for (let i = 0; i < PER_FRAME; i++) writer.add(type, value);
    return writer.take();
  };
  // All types run first, so that no type is measured with code specialised for it alone.
  for (let i = 0; i < 200; i++) for (const [type, value] of messages) reader.read(fill(type, value));
  return messages.map(([type, value]) => {
    const encodeNs = nanoseconds(() => (sink = fill(type, value)), PER_FRAME);
    const frame = fill(type, value).slice();
    const decodeNs = nanoseconds(() => reader.read(frame), PER_FRAME);
    return { what: type.name, bytes: Math.round((frame.byteLength - 16) / PER_FRAME), encodeNs, decodeNs };
  });
}

function bodies(): object[] {
  return [8, 1_000, 37_632].flatMap((count) => {
    const values = Float32Array.from({ length: count }, (_, i) => Math.sin(i));
    const inputs = [{ name: "x", type: "FP32" as const, dims: [1, count], data: new Uint8Array(values.buffer) }];
    const tensors = encodeTensors(inputs);
    return (["json", "msgpack", "binary"] as const).map((form) => {
      const payload = encodeRequest(form, { inputs });
      return {
        what: `request of ${count} FP32 as ${form}`,
        bytes: payload.byteLength,
        decodeNs: nanoseconds(() => (sink = decodeRequest(form, payload))),
        answerNs: nanoseconds(() => (sink = encodeAnswer(form, { model: "m", version: "1", tensors }))),
      };
    });
  });
}

const small = encodeTensors([{ name: "y", type: "FP32", dims: [1, 8], data: new Uint8Array(32) }]);
const figures = [
  ...records(),
  { what: "decodeTensors, one of 32 bytes", decodeNs: nanoseconds(() => (sink = decodeTensors(small))) },
  ...bodies(),
];
process.stdout.write(`${JSON.stringify({ node: process.version, kept: sink !== undefined, figures }, undefined, 1)}\n`);
