/** Every kind of body that a door takes, as large and as nasty as the limits allow (docs/limits.md). */
import { openSync, rmSync, truncateSync, closeSync } from "node:fs";
import { encodeTensors } from "@tutti/wire";
import { scannedJpeg } from "@tutti/onnx-tools/testing";
import { writeWav } from "@tutti/onnx-tools";
import { CRUMBS, nestedBodies } from "../attacks/bodies.ts";
import { keysInMsgpack, numbersInMsgpack, typedMessages } from "../attacks/decoding.ts";
import { png } from "../attacks/media.ts";
import { inferMessage } from "../clients/grpc.ts";
import { ask, dial, pour } from "../clients/http.ts";
import { HEARD, WIDE } from "../systems.ts";
import { type Flood, type HttpAsking, type NatsAsking, overGrpc, overHttp, overNats, overStreams } from "./doors.ts";

export interface Kind {
  readonly name: string;
  readonly what: string;
  /** Makes the bodies, which takes a while. @returns what sends them until it is enough */
  readonly prepare: () => (flood: Flood) => Promise<void>;
}

/** A little less than a body, and than a message of NATS, may have. */
const [BODY_BYTES, PAYLOAD_BYTES, REQUEST_BYTES] = [33_000_000, 8_300_000, 4_190_000];
/** Bodies up to so many bytes are read on the thread that schedules. */
const INLINE_BYTES = 65_000;

const turnsOf =
  <T>(all: readonly T[]) =>
  (i: number): T =>
    all[i % all.length]!;

const JSON_TYPE = { "content-type": "application/json" };
const infer = (model: string, body: Uint8Array | string, headers: Readonly<Record<string, string>> = JSON_TYPE) => ({
  ...{ path: `/v2/models/${model}/infer`, body, headers },
});
const jsonOf = (width: number, data: string): string =>
  `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,${width}],"data":${data}}]}`;
const SMALL_JSON = jsonOf(4, "[1,2,3,4]");

/** Keys, lists and numbers without end, just short enough to be read at once. */
function inlineBodies(): string[] {
  const fill = (piece: (i: number) => string): string => {
    let text = "";
    for (let i = 0; text.length < INLINE_BYTES - 200; i++) text += (i === 0 ? "" : ",") + piece(i);
    return text;
  };
  return [
    `{${fill((i) => `"${i.toString(36)}":0`)}}`,
    jsonOf(4, `[${fill(() => "[]")}]`),
    jsonOf(4, `[${fill(() => "1e-300")}]`),
    jsonOf(4, `[${fill(() => "1")}]`),
    `{"parameters":{${fill((i) => `"${i.toString(36)}":[[0]]`)}},"inputs":[]}`,
  ];
}

const floats = (count: number): Float32Array => Float32Array.from({ length: count }, (_, i) => i / 7);
const bytesOf = ({ buffer, byteOffset, byteLength }: Float32Array): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);
const WIDE_ROW = floats(WIDE);

/** Triton's form: JSON, and the tensors behind it. */
function binaryBody(shape: readonly number[], raw: Uint8Array): HttpAsking {
  const input = { name: "x", datatype: "FP32", shape, parameters: { binary_data_size: raw.byteLength } };
  const head = Buffer.from(JSON.stringify({ inputs: [input] }));
  const headers = {
    ...{ "content-type": "application/octet-stream", "inference-header-content-length": `${head.byteLength}` },
  };
  return infer("wide", Buffer.concat([head, raw]), headers);
}

const tensor = (dims: readonly number[], data: Uint8Array): Uint8Array =>
  encodeTensors([{ name: "x", type: "FP32", dims, data }]);
const SMALL_ROW = (): Uint8Array => tensor([1, 4], bytesOf(Float32Array.of(1, 2, 3, 4)));

const natsOf = (
  model: string,
  payload: Uint8Array | string,
  form: string,
  headers: Readonly<Record<string, string>> = {},
): NatsAsking => ({
  ...{ subject: `infer.${model}.a`, payload },
  headers: { "Content-Type": `application/${form}`, ...headers },
});
const BINARY = "vnd.tutti.tensor";

const rawMessage = (model: string, shape: readonly number[], row: Float32Array): { readonly content: Uint8Array } => ({
  content: inferMessage({ model, input: { name: "x", shape }, row }),
});

const overHttpOf =
  (connections: number, bodies: () => readonly HttpAsking[]): Kind["prepare"] =>
  () => {
    const next = turnsOf(bodies());
    return (flood) => overHttp(flood, connections, next);
  };
const overNatsOf =
  (messages: () => readonly NatsAsking[]): Kind["prepare"] =>
  () => {
    const next = turnsOf(messages());
    return (flood) => overNats(flood, next);
  };

const json: readonly Kind[] = [
  {
    name: "json-small",
    what: "requests of four numbers over HTTP",
    prepare: overHttpOf(128, () => [infer("add-one", SMALL_JSON)]),
  },
  {
    name: "json-inline",
    what: "JSON of 64 KB over HTTP: keys, lists or numbers",
    prepare: overHttpOf(64, () => inlineBodies().map((body) => infer("add-one", body))),
  },
  {
    name: "json-long",
    what: "JSON of 4 and 33 MB over HTTP: lists, levels or numbers",
    prepare: overHttpOf(16, () => {
      const numbers = jsonOf(WIDE, `[${"0.125,".repeat(BODY_BYTES / 6 - 20)}1]`);
      return [...nestedBodies(), numbers].map((body) => infer("wide", Buffer.from(body)));
    }),
  },
  {
    name: "nats-json",
    what: "JSON of 64 KB and of 4 MB over NATS",
    prepare: overNatsOf(() =>
      [...inlineBodies(), ...nestedBodies()].map((body) => natsOf("wide", Buffer.from(body), "json")),
    ),
  },
];

const binary: readonly Kind[] = [
  {
    name: "binary",
    what: "binary tensors over HTTP: rows of 56 KB, and 33 MB of a false size",
    prepare: overHttpOf(32, () => [
      binaryBody([1, WIDE], bytesOf(WIDE_ROW)),
      binaryBody([1, BODY_BYTES / 4], new Uint8Array(BODY_BYTES)),
      binaryBody([8, WIDE], bytesOf(floats(8 * WIDE))),
    ]),
  },
  {
    name: "nats-small",
    what: "requests of four numbers over NATS",
    prepare: overNatsOf(() => [natsOf("add-one", SMALL_ROW(), BINARY)]),
  },
  {
    name: "nats-binary",
    what: "binary tensors over NATS: rows of 56 KB, 4 MB of a false size, 8 MB of nothing",
    prepare: overNatsOf(() => [
      ...Array.from({ length: 8 }, () => natsOf("wide", tensor([1, WIDE], bytesOf(WIDE_ROW)), BINARY)),
      natsOf("wide", tensor([1, REQUEST_BYTES / 4], new Uint8Array(REQUEST_BYTES)), BINARY),
      natsOf("wide", new Uint8Array(PAYLOAD_BYTES), BINARY),
    ]),
  },
  {
    name: "msgpack",
    what: "msgpack over NATS: 160,000 keys or a million numbers in 1 MB, and 64 KB of keys",
    prepare: overNatsOf(() =>
      [keysInMsgpack(true), keysInMsgpack(false), numbersInMsgpack(), keysInMsgpack(true, 9_000)].map((body) =>
        natsOf("add-one", body, "msgpack"),
      ),
    ),
  },
];

const grpc: readonly Kind[] = [
  {
    name: "grpc-typed",
    what: "1 MB of typed contents of every kind",
    prepare: () => {
      const next = turnsOf([...typedMessages()].map(([, content]) => ({ content })));
      return (flood) => overGrpc(flood, 32, next);
    },
  },
  {
    name: "grpc-raw",
    what: "raw contents: four numbers, rows of 56 KB, and 33 MB of a false size",
    prepare: () => {
      const next = turnsOf([
        ...Array.from({ length: 8 }, () => rawMessage("add-one", [1, 4], floats(4))),
        ...Array.from({ length: 4 }, () => rawMessage("wide", [1, WIDE], WIDE_ROW)),
        rawMessage("wide", [1, WIDE], floats(BODY_BYTES / 4)),
      ]);
      return (flood) => overGrpc(flood, 64, next);
    },
  },
  {
    name: "grpc-streams",
    what: "streams of small requests and of 1 MB of typed contents, written without waiting for answers",
    prepare: () => {
      const typed = [...typedMessages()].map(([, content]) => content);
      const { content: small } = rawMessage("add-one", [1, 4], floats(4));
      return (flood) => overStreams(flood, 16, (i) => (i % 8 === 0 ? typed[(i / 8) % typed.length]! : small));
    },
  },
];

const streams: Kind = {
  name: "http-streams",
  what: "bodies over HTTP in chunks of one byte, without end",
  prepare: () => (flood) => Promise.all(Array.from({ length: 16 }, () => crumble(flood))).then(() => undefined),
};

/** Longer than any flood. */
const POUR_MS = 600_000;

/** One connection after the other; each is closed when its body is refused. */
async function crumble(flood: Flood): Promise<void> {
  const head = ["POST /v2/models/add-one/infer HTTP/1.1", "Host: 127.0.0.1", `Authorization: Bearer ${flood.key}`];
  while (!flood.isOver()) {
    const socket = await dial(flood.http);
    if (socket === undefined) continue;
    socket.resume();
    socket.write([...head, "Transfer-Encoding: chunked", "", ""].join("\r\n"));
    await pour(socket, piecesUntil(flood), performance.now() + POUR_MS);
    socket.destroy();
  }
}

function* piecesUntil(flood: Flood): Generator<Uint8Array> {
  while (!flood.isOver()) {
    flood.count("sent");
    yield CRUMBS;
  }
}

const MEMORY = `tutti-fairness-${process.pid}`;
const sharedMemory: Kind = {
  name: "shared-memory",
  what: "inputs of 33 MB and of 56 KB in shared memory, while regions are registered and given up",
  prepare: () => async (flood) => {
    const path = `/dev/shm/${MEMORY}`;
    closeSync(openSync(path, "w", 0o600));
    truncateSync(path, BODY_BYTES);
    const admin = { authorization: `Bearer ${flood.key}` };
    const regions = `${flood.http}/v2/systemsharedmemory`;
    try {
      const region = JSON.stringify({ key: MEMORY, offset: 0, byte_size: BODY_BYTES });
      await ask(`${regions}/region/fair/register`, { body: region, headers: admin });
      const from = (width: number): HttpAsking => {
        const parameters = { shared_memory_region: "fair", shared_memory_byte_size: 4 * width };
        const inputs = [{ name: "x", datatype: "FP32", shape: [1, width], parameters }];
        return infer("wide", JSON.stringify({ inputs }));
      };
      const next = turnsOf([
        from(WIDE),
        from(BODY_BYTES / 4),
        { path: "/v2/systemsharedmemory/region/more/register", body: region },
        { path: "/v2/systemsharedmemory/region/more/unregister", body: "{}" },
      ]);
      await overHttp(flood, 64, next);
    } finally {
      await ask(`${regions}/unregister`, { body: "{}", headers: admin });
      rmSync(path, { force: true });
    }
  },
};

const media: readonly Kind[] = [
  {
    name: "pictures",
    what: "JPEGs of 22 and of 91 scans and PNGs of 40 megapixels, for a model of 64 × 64",
    prepare: overHttpOf(16, () => {
      const size = { width: 6_324, height: 6_324 };
      const jpegs = [
        scannedJpeg({ ...size, scans: 91 }),
        scannedJpeg({ ...size, scans: 4, frame: 0xca }),
        scannedJpeg({ width: 3_300, height: 3_300, scans: 22 }),
        scannedJpeg({ ...size, scans: 1, frame: 0xc0 }),
      ].map((body) => infer("see", body, { "content-type": "image/jpeg" }));
      const pngs = [png(6_324, 6_324), png(16_384, 2_441), png(64, 48)];
      return [...jpegs, ...pngs.map((body) => infer("see", body, { "content-type": "image/png" }))];
    }),
  },
  {
    name: "sounds",
    what: "sounds of 33 MB, of 30 s, and with 250 chunks before their samples",
    prepare: overHttpOf(32, () => {
      const samplesOf = (count: number): Uint8Array<ArrayBuffer> =>
        writeWav({ sampleRate: 16_000, samples: floats(count) });
      const chunked = Buffer.concat([
        samplesOf(0).subarray(0, 36),
        ...Array.from({ length: 250 }, () => Buffer.concat([Buffer.from("LIST"), Buffer.alloc(4)])),
        samplesOf(HEARD).subarray(36),
      ]);
      return [samplesOf(BODY_BYTES / 2), samplesOf(HEARD), chunked].map((body) =>
        infer("hear", body, { "content-type": "audio/wav" }),
      );
    }),
  },
];

const jobs: Kind = {
  name: "jobs",
  what: "jobs over NATS: four numbers, 4 MB of a false size, and results asked for",
  prepare: overNatsOf(() => [
    ...Array.from({ length: 8 }, () => ({
      ...{ subject: "jobs.add-one.a", payload: SMALL_ROW() },
      headers: { "Content-Type": `application/${BINARY}`, "Tutti-Slo": "30s" },
    })),
    {
      ...{ subject: "jobs.wide.a", payload: tensor([1, REQUEST_BYTES / 4], new Uint8Array(REQUEST_BYTES)) },
      headers: { "Content-Type": `application/${BINARY}` },
    },
    ...Array.from({ length: 8 }, () => ({ subject: "jobresults.add-one.a", payload: "nothing" })),
  ]),
};

const ADMIN_SUBJECTS = [
  ...["tutti.v1.main.admin.agents", "tutti.v1.main.admin.refusals", "tutti.v1.main.all.batcher", "$SRV.PING"],
  ...["$JS.API.STREAM.LIST", "$KV.tutti_models.add-one", "cancel.b", "infer.add-one.b"],
];

const admin: Kind = {
  name: "admin-calls",
  what: "what an application may not do: operators' subjects, the repository, the console; and its own cancels",
  prepare: () => {
    const cancels = Array.from({ length: 8 }, () => ({ subject: "cancel.a", payload: Buffer.alloc(64_000, 1) }));
    const next = turnsOf([...ADMIN_SUBJECTS.map((subject) => ({ subject, payload: "{}" })), ...cancels]);
    const calls = turnsOf<HttpAsking>([
      { path: "/v2/repository/models/add-one/unload", body: "{}" },
      {
        path: "/v2/repository/models/evil/load",
        body: `{"parameters":{"file:1/model.onnx":"${"A".repeat(1_000_000)}"}}`,
      },
      { path: "/v2/repository/index", body: "{}" },
      { path: "/v2/models/stats", method: "GET", body: "" },
      { path: "/console/feed", method: "GET", body: "" },
      { path: "/console/restart", body: "{}" },
      { path: "/openapi.json", method: "GET", body: "" },
    ]);
    return async (flood) => void (await Promise.all([overNats(flood, next), overHttp(flood, 32, calls)]));
  },
};

export const KINDS: readonly Kind[] = [...json, ...binary, ...grpc, streams, sharedMemory, ...media, jobs, admin];
