/** Behaviour of the gateway at its bounds (T7): it refuses, forgets the oldest, or says "other"; all else goes on. */
import { InMemoryNetwork } from "@tutti/ports/bus";
import { VAD_AUDIO, demoModel, presentationOf, writeWav } from "@tutti/onnx-tools";
import { type Heartbeat, TuttiError } from "@tutti/protocol";
import { noTelemetry } from "@tutti/ports/telemetry";
import { actorKey, instant } from "@tutti/units";
import { readFileSync } from "node:fs";
import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ClientBytes } from "./client-bytes.ts";
import { BODY_PIECES_MAX, BodyReader } from "./http/body-reader.ts";
import { MEDIA_WAITING_MAX, MediaBodies } from "./media/media-bodies.ts";
import { SOUND_FRAMES_MAX, toTensors } from "./media/media-steps.ts";
import { ClusterFigures } from "./metrics/cluster-figures.ts";
import { Takeovers } from "./metrics/takeovers.ts";
import { AppClients } from "./oip/app-clients.ts";
import { GATEWAY_PIPELINES_MAX, Inference } from "./oip/inference.ts";
import { readInferHead } from "./oip/infer-head.ts";
import { INLINE_JSON_BYTES, LONG_BODIES_MAX, LongBodies } from "./oip/long-bodies.ts";
import { readTerms } from "./oip/request-terms.ts";
import { twice } from "./testing/gateway-scene.ts";

const codeOf = (run: () => unknown): string => {
  try {
    run();
    return "ok";
  } catch (error) {
    return (error as TuttiError).code;
  }
};
const rejection = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "ok",
    (error: unknown) => (error as TuttiError).code,
  );

const clientsOf = (appsMax?: number): AppClients =>
  new AppClients(new InMemoryNetwork().connect({ name: "gateway" }), noTelemetry, "secret", appsMax);
const X = { x: new Float32Array(4) };

test("beyond so many applications the one that was idle longest goes, and none that waits for an answer", async () => {
  const clients = clientsOf(2);
  const waits = clients.of("a").infer("m", X, { slo: "60s" });
  clients.of("b");
  clients.of("c");
  expect(clients.size).toBe(2);
  const alsoWaits = clients.of("c").infer("m", X, { slo: "60s" });
  expect(codeOf(() => clients.of("d"))).toBe("TUTTI_OVERLOADED");
  expect(clients.of("a").inFlight).toBe(1);
  clients.close();
  // This bus has no subscriber, and the server says so before the clients are closed.
  expect([await rejection(waits), await rejection(alsoWaits)]).not.toContain("ok");
});

test("more rows than a gateway waits for are refused as overload, and room is made by what ends", async () => {
  const clients = clientsOf();
  const model = { spec: { ...twice, number: 1, version: "1" }, status: undefined, lease: undefined };
  const outcomes: string[] = [];
  const inference = new Inference({
    modelOf: () => model,
    clients,
    note: ({ outcome }) => void outcomes.push(outcome),
    tracer: noTelemetry.tracer,
    rowsMax: 4,
  });
  const ask = (rows: number): Promise<string> => {
    const data = new Uint8Array(16 * rows);
    const inputs = [{ name: "x", type: "FP32", dims: [rows, 4], data }] as const;
    const terms = readTerms(() => undefined, {});
    const { signal } = new AbortController();
    return rejection(inference.infer({ model: "twice", version: undefined, inputs, wanted: undefined, terms, signal }));
  };
  const first = ask(3);
  expect(inference.inFlight).toBe(3);
  expect(await ask(2)).toBe("TUTTI_OVERLOADED");
  expect(await first).toBe("TUTTI_UNAVAILABLE");
  expect(inference.inFlight).toBe(0);
  expect(outcomes).toEqual(["TUTTI_OVERLOADED", "TUTTI_UNAVAILABLE"]);
  clients.close();
});

test("rows that could not even be asked for are waited for by nobody", async () => {
  const model = { spec: { ...twice, number: 1, version: "1" }, status: undefined, lease: undefined };
  const full = (): never => {
    throw new TuttiError("TUTTI_OVERLOADED", "no more applications");
  };
  const inference = new Inference({
    modelOf: () => model,
    clients: { of: full } as unknown as AppClients,
    note: () => undefined,
    tracer: noTelemetry.tracer,
    rowsMax: 4,
  });
  const terms = readTerms(() => undefined, {});
  for (const rows of [1, 2, 3, 4, 3, 2, 1]) {
    const inputs = [{ name: "x", type: "FP32", dims: [rows, 4], data: new Uint8Array(16 * rows) }] as const;
    const { signal } = new AbortController();
    const call = { model: "twice", version: undefined, inputs, wanted: undefined, terms, signal };
    expect(await rejection(inference.infer(call))).toBe("TUTTI_OVERLOADED");
    expect(inference.inFlight).toBe(0);
  }
});

/** A request whose body comes as the test pushes it. */
function incoming(headers: Record<string, string> = {}): IncomingMessage {
  const request = new IncomingMessage(new Socket());
  Object.assign(request.headers, headers);
  return request;
}

test("bodies together are bounded, whoever sends them, and what they took is given back", async () => {
  const reader = new BodyReader(100, 150);
  const [one, two] = [incoming(), incoming()];
  let finish: (() => void) | undefined;
  const first = reader.withBody(one, () => new Promise<void>((resolve) => (finish = resolve)));
  one.push(Buffer.alloc(90));
  one.push(null);
  while (finish === undefined) await new Promise((resolve) => setImmediate(resolve));
  expect(reader.bytes).toBe(90);
  const second = rejection(reader.withBody(two, () => Promise.resolve()));
  two.push(Buffer.alloc(90));
  expect(await second).toBe("TUTTI_OVERLOADED");
  const other = new ClientBytes("10.0.0.9");
  expect([61, 60, 1].map((bytes) => reader.hold(bytes, other))).toEqual([false, true, false]);
  reader.release(60, other);
  finish();
  await first;
  expect(reader.bytes).toBe(0);
});

test("bodies of one address are bounded, over HTTP and gRPC together, and leave room for others", async () => {
  const reader = new BodyReader(100, 300, 150);
  const socketOf = (remoteAddress: string): Socket =>
    Object.defineProperty(new Socket(), "remoteAddress", { value: remoteAddress });
  const from = (address: string): IncomingMessage => new IncomingMessage(socketOf(address));
  const [one, two, three] = [from("10.0.0.1"), from("10.0.0.1"), from("10.0.0.2")];
  let finish: (() => void) | undefined;
  const first = reader.withBody(one, () => new Promise<void>((resolve) => (finish = resolve)));
  one.push(Buffer.alloc(90));
  one.push(null);
  while (finish === undefined) await new Promise((resolve) => setImmediate(resolve));
  const second = rejection(reader.withBody(two, () => Promise.resolve()));
  two.push(Buffer.alloc(90));
  expect(await second).toBe("TUTTI_OVERLOADED");
  const third = reader.withBody(three, ({ byteLength }) => Promise.resolve(byteLength));
  three.push(Buffer.alloc(90));
  three.push(null);
  expect(await third).toBe(90);
  const calls = reader.clientOf(socketOf("10.0.0.1"));
  expect([reader.hold(61, calls), reader.hold(60, calls)]).toEqual([false, true]);
  reader.release(60, calls);
  finish();
  await first;
  expect([reader.bytes, calls.bytes]).toEqual([0, 0]);
});

test("one body is bounded too, by what it says and by what it is", async () => {
  const reader = new BodyReader(100, 1_000);
  const said = incoming({ "content-length": "101" });
  expect(await rejection(reader.withBody(said, () => Promise.resolve()))).toBe("TUTTI_TOO_LARGE");
  const chunked = incoming();
  const outcome = rejection(reader.withBody(chunked, () => Promise.resolve()));
  chunked.push(Buffer.alloc(60));
  chunked.push(Buffer.alloc(60));
  expect(await outcome).toBe("TUTTI_TOO_LARGE");
  const cut = incoming();
  const gone = rejection(reader.withBody(cut, () => Promise.resolve()));
  cut.push(Buffer.alloc(10));
  cut.destroy();
  expect(await gone).toBe("TUTTI_CANCELLED");
  expect(reader.bytes).toBe(0);
});

test("a body that comes byte by byte is one buffer and no more, and one in more pieces than may be is refused", async () => {
  const reader = new BodyReader(200_000, 400_000);
  const sent = Buffer.from(Array.from({ length: 50_000 }, (_, i) => i & 0xff));
  const slow = incoming();
  const read = reader.withBody(slow, (body) =>
    Promise.resolve([Buffer.from(body), body.buffer.byteLength, reader.bytes]),
  );
  for (let i = 0; i < sent.length; i++) slow.push(sent.subarray(i, i + 1));
  slow.push(null);
  const [body, held, counted] = (await read) as [Buffer, number, number];
  expect(body.equals(sent)).toBe(true);
  expect([counted, held < 2.5 * sent.length]).toEqual([held, true]);
  const pieces = incoming();
  const outcome = rejection(reader.withBody(pieces, () => Promise.resolve()));
  for (let i = 0; i <= BODY_PIECES_MAX; i++) pieces.push(sent.subarray(0, 1));
  expect(await outcome).toBe("TUTTI_INVALID_INPUT");
  expect(reader.bytes).toBe(0);
});

test("a body that comes in one piece is not copied", async () => {
  const [whole, piece] = [incoming(), Buffer.from("a body")];
  const read = new BodyReader().withBody(whole, (body) => Promise.resolve(body));
  whole.push(piece);
  whole.push(null);
  expect(await read).toBe(piece);
});

test("more long bodies than may wait are refused as overload", async () => {
  const bodies = new LongBodies();
  const json = Buffer.from(JSON.stringify({ inputs: [], parameters: { padding: "x".repeat(INLINE_JSON_BYTES) } }));
  const outcomes = await Promise.all(
    Array.from({ length: LONG_BODIES_MAX + 10 }, () =>
      rejection(bodies.readHead({ json }, { app: "shop", until: Infinity })),
    ),
  );
  expect(outcomes.filter((code) => code === "TUTTI_OVERLOADED")).toHaveLength(10);
  expect(outcomes.filter((code) => code === "ok")).toHaveLength(LONG_BODIES_MAX);
  await bodies.close();
});

test("a request says only so much beside its tensors", () => {
  const read = (body: object): string =>
    codeOf(() => readInferHead(Buffer.from(JSON.stringify({ inputs: [], ...body }))));
  const parameters = (count: number): object =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`p${i}`, i]));
  expect([read({ id: "x".repeat(256) }), read({ id: "x".repeat(257) })]).toEqual(["ok", "TUTTI_INVALID_INPUT"]);
  expect([read({ parameters: parameters(64) }), read({ parameters: parameters(65) })]).toEqual([
    "ok",
    "TUTTI_INVALID_INPUT",
  ]);
});

test("of more actors and sub-clusters than are remembered, the longest silent are forgotten and the last not counted", () => {
  const figures = new ClusterFigures(instant(0));
  const hear = (key: number): boolean =>
    figures.hear({ key: actorKey(key), role: "ingress", at: instant(0), figures: {} }, instant(1e7));
  for (let key = 1; key <= 5_000; key++) expect(hear(key)).toBe(true);
  const living = [...figures.living(instant(1e7))].map(({ key }) => key);
  expect([living.length, living[0]]).toEqual([4_096, 905]);
  const takeovers = new Takeovers();
  for (let i = 0; i < 100; i++) takeovers.hear({ role: "ranker", epoch: 1, subCluster: `s${i}` } as Heartbeat);
  expect(takeovers.counts.size).toBe(64);
});

test("more pictures than may wait for a thread are refused as overload", async () => {
  const bodies = new MediaBodies(1);
  const bytes = new Uint8Array(readFileSync(join(import.meta.dirname, "../../onnx-tools/fixtures/text-line.png")));
  const input = presentationOf(demoModel("cnn").config.presentation).input!;
  const { signal } = new AbortController();
  const asked = Array.from({ length: 12 }, () =>
    rejection(bodies.tensors({ model: "cnn", app: "shop", bytes, input, signal })),
  );
  const outcomes = await Promise.all(asked);
  expect(new Set(outcomes)).toEqual(new Set(["ok", "TUTTI_OVERLOADED"]));
  expect(await rejection(bodies.tensors({ model: "cnn", app: "shop", bytes, input, signal }))).toBe("ok");
  await bodies.close();
  expect(await rejection(bodies.tensors({ model: "cnn", app: "shop", bytes, input, signal }))).toBe(
    "TUTTI_UNAVAILABLE",
  );
  expect(MEDIA_WAITING_MAX).toBe(64);
});

test("a sound of more frames than are asked for at once is refused before they are cut", async () => {
  const data = writeWav({ sampleRate: 16_000, samples: new Float32Array(512 * (SOUND_FRAMES_MAX + 1)) });
  const request = { pipeline: "vad", app: "", parameters: { input: VAD_AUDIO } };
  const file = { type: "UINT8", dims: [data.byteLength], data } as const;
  const refused = await rejection(toTensors({ input: { file }, stages: {}, kept: {}, request }));
  expect(refused).toBe("TUTTI_TOO_LARGE");
});

test("pipelines are named in metrics once they have answered, and no more than so many", async () => {
  const noted: string[] = [];
  const answering = { inferTensors: () => Promise.resolve({ outputs: [], version: undefined }) };
  const refusing = { inferTensors: () => Promise.reject(new TuttiError("TUTTI_NOT_FOUND", "")) };
  let client: object = refusing;
  const inference = new Inference({
    modelOf: () => undefined,
    clients: { of: () => client } as unknown as AppClients,
    note: ({ model }) => void noted.push(model),
    tracer: noTelemetry.tracer,
  });
  const terms = readTerms(() => undefined, {});
  const ask = (model: string): Promise<string> => {
    const call = { model, version: undefined, inputs: [], wanted: undefined, terms };
    return rejection(inference.infer({ ...call, signal: new AbortController().signal }));
  };
  expect([await ask("p0"), noted]).toEqual(["TUTTI_NOT_FOUND", []]);
  client = answering;
  for (let i = 0; i < GATEWAY_PIPELINES_MAX + 3; i++) expect(await ask(`p${i}`)).toBe("ok");
  expect([noted.length, noted[0]]).toEqual([GATEWAY_PIPELINES_MAX, "p0"]);
  client = refusing;
  await ask("p0"); // one that is known counts its refusals too
  expect(noted.length).toBe(GATEWAY_PIPELINES_MAX + 1);
});
