/** Attacks by messages of many small values, which are cheap to send and were dear to decode. */
import type { Attack, Scene } from "../attack.ts";
import { GrpcConnection, STATUS, prefix } from "../clients/grpc.ts";
import { RawNats } from "../clients/nats.ts";
import { bytes, int, message } from "../clients/protobuf.ts";

/** A little less than a message may have beside its raw tensors. */
const BYTES = 1_040_000;

const packed = (field: number) => bytes(field, Buffer.alloc(BYTES, 1));
const repeated = (one: Uint8Array) => Buffer.concat(Array<Uint8Array>(Math.floor(BYTES / one.byteLength)).fill(one));

/** Contents of each kind for a model of four numbers: with one byte for each element, and with a tag for each. */
const CONTENTS: readonly (readonly [type: string, contents: Uint8Array])[] = [
  ...(
    [
      ["BOOL", 1],
      ["INT32", 2],
      ["INT64", 3],
      ["UINT32", 4],
      ["UINT64", 5],
    ] as const
  ).flatMap(([type, field]) => [[type, packed(field)] as const, [type, repeated(int(field, 1))] as const]),
  ["FP32", packed(6)],
  ["FP32", repeated(Buffer.from([(6 << 3) | 5, 0, 0, 0, 0]))],
  ["FP64", packed(7)],
  ["FP64", repeated(Buffer.from([(7 << 3) | 1, 0, 0, 0, 0, 0, 0, 0, 0]))],
  ["BYTES", repeated(bytes(8, ""))],
];

const inferOf = (model: string, type: string, shape: Uint8Array, contents: Uint8Array): Uint8Array =>
  message(bytes(1, model), bytes(5, message(bytes(1, "x"), bytes(2, type), shape, bytes(5, contents))));

/** Messages by what they are: of each kind for a shape that the model has and one that it has not. */
export function* typedMessages(): Generator<readonly [what: string, content: Uint8Array]> {
  const sizes = (...all: number[]) => message(...all.map((size) => int(3, size)));
  for (const [type, contents] of CONTENTS) {
    yield [`${type} for four`, inferOf("add-one", type, sizes(1, 4), contents)];
    yield [`${type} of a false shape`, inferOf("add-one", type, sizes(1, BYTES), contents)];
    yield [`${type} for nobody`, inferOf("nobody", type, sizes(1, BYTES), contents)];
  }
  yield ["a shape of a million sizes", inferOf("add-one", "FP32", packed(3), new Uint8Array(0))];
  const parameter = bytes(4, message(bytes(1, "p"), bytes(2, repeated(int(2, 1)))));
  yield ["a parameter with half a million values", message(bytes(1, "add-one"), parameter)];
}

/** Time that all of it may take, as a multiple of what as many bytes take that are raw. */
const TIMES_RAW = 4;
/** INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED. */
const REFUSED: ReadonlySet<number> = new Set([3, 5, 8]);
/** For what else the machine does. */
const GRACE_MS = 500;

const typedContents: Attack = {
  name: "typed-contents",
  what: "1 MB of typed contents of every kind over gRPC, in calls and in streams, for a model of four numbers",
  system: "open",
  async run(scene) {
    const messages = [...typedMessages()];
    const raw = rawMessage();
    const connection = await GrpcConnection.open(scene.grpc);
    try {
      const broken: string[] = [];
      for (let round = 0; round < scene.of(1, 20); round++) {
        const rawMs = await elapsedMs(() =>
          askAll(
            connection,
            messages.map(() => raw),
          ),
        );
        const typedMs = await elapsedMs(async () => {
          const statuses = await askAll(
            connection,
            messages.map(([, content]) => content),
          );
          broken.push(
            ...messages.flatMap(([what], i) => (REFUSED.has(statuses[i]!) ? [] : [`${what}: status ${statuses[i]}`])),
          );
        });
        const streamMs = await elapsedMs(() => inStream(scene, messages));
        for (const [what, ms] of [
          ["calls", typedMs],
          ["a stream", streamMs],
        ] as const)
          if (ms > TIMES_RAW * rawMs + GRACE_MS)
            broken.push(
              `${messages.length} of them in ${what} took ${Math.round(ms)} ms, raw ones ${Math.round(rawMs)}`,
            );
      }
      return [...new Set([...broken, ...(await good(connection))])];
    } finally {
      connection.close();
    }
  },
};

/** Calls that are open at once: a client may not hold more than so many megabytes. */
const AT_ONCE = 4;

async function askAll(connection: GrpcConnection, messages: readonly Uint8Array[]): Promise<number[]> {
  const statuses: number[] = [];
  let next = 0;
  const askOn = async (): Promise<void> => {
    while (next < messages.length) {
      const i = next++;
      statuses[i] = (await connection.ask("ModelInfer", messages[i]!, { "tutti-app": "a" })).status;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, askOn));
  return statuses;
}

async function elapsedMs(run: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await run();
  return performance.now() - startedMs;
}

/** As many bytes that nobody decodes: a tensor of a false size. */
const rawMessage = (): Uint8Array =>
  message(
    bytes(1, "add-one"),
    bytes(5, message(bytes(1, "x"), bytes(2, "FP32"), int(3, 1), int(3, 4))),
    bytes(7, Buffer.alloc(BYTES)),
  );

/** Resolves when the last is answered. */
async function inStream({ grpc }: Scene, messages: readonly (readonly [string, Uint8Array])[]): Promise<void> {
  const connection = await GrpcConnection.open(grpc);
  try {
    const stream = connection.begin("ModelStreamInfer", { "tutti-app": "a" });
    const ended = new Promise((resolve) => stream.on("close", resolve));
    stream.resume();
    for (const [, content] of messages) stream.write(Buffer.concat([prefix(content.byteLength), content]));
    stream.end();
    await ended;
  } finally {
    connection.close();
  }
}

/** Typed contents as a client means them. */
async function good(connection: GrpcConnection): Promise<string[]> {
  const row = Buffer.from(Float32Array.of(1, 2, 3, 4).buffer);
  const sizes = message(int(3, 1), int(3, 4));
  const { status, text } = await connection.ask("ModelInfer", inferOf("add-one", "FP32", sizes, bytes(6, row)), {
    "tutti-app": "a",
  });
  return status === STATUS.ok ? [] : [`four typed numbers were answered with ${status}: ${text}`];
}

/** A map of so many keys, by default in a megabyte of msgpack: where a request has its inputs, and at its top. */
export function keysInMsgpack(isTop: boolean, keys = 160_000): Uint8Array {
  const map = Buffer.alloc(5 + 7 * keys);
  map.writeUInt8(0xdf, 0);
  map.writeUInt32BE(keys, 1);
  for (let i = 0; i < keys; i++) {
    map.write(`\xa5${i.toString(36).padStart(5, "k")}`, 5 + 7 * i, "latin1");
    map.writeUInt8(0, 11 + 7 * i);
  }
  return isTop ? map : Buffer.concat([Buffer.from("\x81\xa6inputs", "latin1"), map]);
}
/** A list of a million numbers for a model of four. */
export const numbersInMsgpack = (): Uint8Array => {
  const list = Buffer.alloc(5 + BYTES, 1);
  list.writeUInt8(0xdd, 0);
  list.writeUInt32BE(BYTES, 1);
  const head = "\x81\xa6inputs\x91\x84\xa4name\xa1x\xa8datatype\xa4FP32\xa5shape\x92\x01\x04\xa4data";
  return Buffer.concat([Buffer.from(head, "latin1"), list]);
};

const manyKeys: Attack = {
  name: "msgpack-keys",
  what: "40 bodies of 1 MB over NATS with 160,000 keys or a million numbers in msgpack",
  system: "open",
  async run(scene) {
    const nats = await RawNats.open(scene.nats);
    try {
      nats.subscribe("_INBOX.a.>");
      const bodies = [keysInMsgpack(true), keysInMsgpack(false), numbersInMsgpack()];
      let sent = 0;
      const askAllOver = (form: string, bodyOf: (i: number) => Uint8Array): Promise<number> =>
        elapsedMs(async () => {
          for (let i = 0; i < 40; i++)
            nats.publish("infer.add-one.a", bodyOf(i), {
              reply: `_INBOX.a.${sent++}`,
              headers: { "Content-Type": `application/${form}` },
            });
          if (!(await nats.received(sent, 20_000))) throw new Error("some were never answered");
        });
      const broken: string[] = [];
      for (let round = 0; round < scene.of(1, 10); round++) {
        const rawMs = await askAllOver("octet-stream", () => Buffer.alloc(BYTES));
        const keysMs = await askAllOver("msgpack", (i) => bodies[i % bodies.length]!);
        if (keysMs > TIMES_RAW * rawMs + GRACE_MS)
          broken.push(`40 of them took ${Math.round(keysMs)} ms, as many raw bytes ${Math.round(rawMs)}`);
      }
      if (nats.messages.some(({ headers }) => !headers.includes("Error"))) broken.push("one was answered");
      return broken;
    } finally {
      nats.close();
    }
  },
};

export const decodingAttacks: readonly Attack[] = [typedContents, manyKeys];
