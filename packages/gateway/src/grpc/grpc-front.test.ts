import { type Client, Metadata, type ServiceError, credentials, status } from "@grpc/grpc-js";
import {
  DATA_TYPES,
  type DataType,
  ERROR_STATUS,
  type ErrorCode,
  TuttiError,
  type TuttiErrorOptions,
  bytesOf,
} from "@tutti/protocol";
import { bytesFromValues } from "@tutti/wire";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import { GatewayScene, TOKEN } from "../testing/gateway-scene.ts";
import { GRPC_STATUS, grpcFailure } from "./grpc-errors.ts";
import { inferenceService } from "./grpc-front.ts";
import {
  GRPC_ELEMENTS_MAX,
  type WireInferResponse,
  idOfRequest,
  outputsOfRequest,
  tensorsOfRequest as boundedTensors,
} from "./grpc-tensors.ts";
import { type InferMessage, readInferMessage } from "./infer-message.ts";

let scene: GatewayScene;
let client: Client;
beforeEach(async () => {
  scene = await GatewayScene.open();
  client = new (inferenceService())(scene.addresses.grpc, credentials.createInsecure());
});
afterEach(async () => {
  client.close();
  await scene.close();
});

type Unary = (
  request: object,
  metadata: Metadata,
  options: object,
  done: (error: ServiceError | null, response: unknown) => void,
) => { cancel(): void };
const method = (name: string): Unary => (client as unknown as Record<string, Unary>)[name]!.bind(client);

function call<Answer = Record<string, unknown>>(
  name: string,
  request: object = {},
  { metadata = {}, deadlineMs }: { metadata?: Record<string, string>; deadlineMs?: number } = {},
): Promise<Answer> {
  const options = deadlineMs === undefined ? {} : { deadline: Date.now() + deadlineMs };
  return new Promise((resolve, reject) => {
    method(name)(request, Metadata.fromHttp2Headers(metadata), options, (error, answer) => {
      if (error === null) resolve(answer as Answer);
      else reject(error);
    });
  });
}
const failure = (promise: Promise<unknown>): Promise<ServiceError> =>
  promise.then(
    () => expect.fail("it was answered"),
    (error: unknown) => error as ServiceError,
  );

const typed = (...data: number[]) => ({
  model_name: "twice",
  id: "g-1",
  inputs: [{ name: "x", datatype: "FP32", shape: [data.length / 4, 4], contents: { fp32_contents: data } }],
});
const floats = (bytes: Uint8Array): number[] => [...new Float32Array(new Uint8Array(bytes).buffer)];

test("live, ready, metadata, configuration and statistics say over gRPC what they say over HTTP", async () => {
  expect(await call("ServerLive")).toEqual({ live: true });
  expect(await call("ServerReady")).toEqual({ ready: false });
  expect(await call("ModelReady", { name: "twice" })).toEqual({ ready: false });
  scene.populate();
  while (!(await call<{ ready: boolean }>("ServerReady")).ready);
  expect(await call("ModelReady", { name: "twice", version: "1" })).toEqual({ ready: true });
  expect(await call("ModelReady", { name: "nobody" })).toEqual({ ready: false });
  expect(await call("ServerMetadata")).toMatchObject({ name: "tutti" });
  expect(await call("ModelMetadata", { name: "twice" })).toMatchObject({
    versions: ["1"],
    inputs: [{ name: "x", datatype: "FP32", shape: ["-1", "4"] }],
  });
  expect(await call("ModelConfig", { name: "twice" })).toMatchObject({
    config: { max_batch_size: 8, input: [{ data_type: "TYPE_FP32", dims: ["4"] }], backend: "emulated" },
  });
  await call("ModelInfer", typed(1, 2, 3, 4));
  expect(await call("ModelStatistics", {})).toMatchObject({
    model_stats: [{ name: "twice", inference_stats: { queue: { count: "0", ns: "0" } } }],
  });
});

test("typed and raw contents are the same tensors, and outputs come back raw", async () => {
  const one = await call<WireInferResponse>("ModelInfer", typed(1, 2, 3, 4));
  expect(one).toMatchObject({ model_name: "twice", model_version: "1", id: "g-1" });
  expect(one.outputs.map(({ name, shape }) => [name, shape.map(Number)])).toEqual([
    ["y", [1, 4]],
    ["n", [1, 1]],
  ]);
  expect(floats(one.raw_output_contents[0]!)).toEqual([2, 4, 6, 8]);
  const raw = {
    model_name: "twice",
    inputs: [{ name: "x", datatype: "FP32", shape: [2, 4] }],
    outputs: [{ name: "y" }],
    raw_input_contents: [new Uint8Array(Float32Array.of(1, 2, 3, 4, 5, 6, 7, 8).buffer)],
  };
  const two = await call<WireInferResponse>("ModelInfer", raw);
  expect(two.outputs.map(({ name, shape }) => [name, shape.map(Number)])).toEqual([["y", [2, 4]]]);
  expect(floats(two.raw_output_contents[0]!)).toEqual([2, 4, 6, 8, 10, 12, 14, 16]);
});

test("SLO and application come from metadata or parameters, and a call's deadline is its SLO where it names no other", async () => {
  await call("ModelInfer", typed(1, 2, 3, 4), {
    metadata: { "tutti-slo": "30ms", "tutti-app": "camera" },
    deadlineMs: 5_000,
  });
  await call("ModelInfer", {
    ...typed(1, 2, 3, 4),
    parameters: { slo: { string_param: "40ms" }, app: { string_param: "b" } },
  });
  await call("ModelInfer", { ...typed(1, 2, 3, 4), parameters: { timeout: { int64_param: 70_000 } } });
  await call("ModelInfer", typed(1, 2, 3, 4), { deadlineMs: 5_000 });
  const seen = scene.seen.map(({ subject, header }) => [subject, header("Tutti-Slo")]);
  expect(seen.slice(0, 3)).toEqual([
    ["infer.twice.camera", "30000us"],
    ["infer.twice.b", "40000us"],
    ["infer.twice.default", "70000us"],
  ]);
  const left = Number(seen[3]?.[1]?.replace("us", ""));
  expect(left).toBeGreaterThan(1_000_000);
  expect(left).toBeLessThan(5_000_000);
});

test("every code has its status, and the trailers tell those apart that share one", async () => {
  expect(Object.keys(GRPC_STATUS)).toEqual(Object.keys(ERROR_STATUS));
  scene.react = () => new TuttiError("TUTTI_OVERLOADED", "too much", { retryAfterMs: 12.5 });
  const refused = await failure(call("ModelInfer", typed(1, 2, 3, 4)));
  expect([refused.code, refused.details]).toEqual([status.RESOURCE_EXHAUSTED, "too much"]);
  expect(refused.metadata.getMap()).toMatchObject({
    "tutti-code": "TUTTI_OVERLOADED",
    "tutti-retryable": "true",
    "tutti-retry-after-ms": "12.5",
    "grpc-retry-pushback-ms": "13",
  });
  expect(grpcFailure(new TuttiError("TUTTI_INTERNAL", "two\nlines")).details).toBe("two lines");
  expect(grpcFailure(new Error("a secret")).details).not.toContain("secret");
  scene.react = () => new TuttiError("TUTTI_DEADLINE_INFEASIBLE", "never");
  expect((await failure(call("ModelInfer", typed(1, 2, 3, 4)))).code).toBe(status.FAILED_PRECONDITION);
  expect((await failure(call("ModelInfer", { model_name: "nobody" }))).code).toBe(status.NOT_FOUND);
  expect((await failure(call("ModelMetadata", { name: "a.b" }))).code).toBe(status.INVALID_ARGUMENT);
});

test("a call that would fail again has no status with which calls are sent again", () => {
  const again = { retryable: true };
  const codeOf = (...[code, options]: [ErrorCode, TuttiErrorOptions?]): status | undefined =>
    grpcFailure(new TuttiError(code, "", options)).code;
  expect(codeOf("TUTTI_DEADLINE_INFEASIBLE")).toBe(status.FAILED_PRECONDITION);
  expect(codeOf("TUTTI_DEADLINE_INFEASIBLE", again)).toBe(status.RESOURCE_EXHAUSTED);
  expect(codeOf("TUTTI_NOT_READY")).toBe(status.UNAVAILABLE);
  expect(codeOf("TUTTI_NOT_READY", { retryable: false })).toBe(status.FAILED_PRECONDITION);
});

test("who cancels, or whose deadline passes, takes the request back", async () => {
  scene.react = () => undefined;
  const cancelled = new Promise<ServiceError>((resolve) => {
    const running = method("ModelInfer")(typed(1, 2, 3, 4), new Metadata(), {}, (error) => resolve(error!));
    void scene.until(() => scene.seen.length === 1).then(() => running.cancel());
  });
  expect((await cancelled).code).toBe(status.CANCELLED);
  await scene.until(() => scene.cancelled.length === 1);
  const late = await failure(call("ModelInfer", typed(1, 2, 3, 4), { deadlineMs: 100 }));
  expect(late.code).toBe(status.DEADLINE_EXCEEDED);
});

test("a stream answers each of its requests with its id, and a bad one with its error", async () => {
  type Said = { error_message: string; infer_response: WireInferResponse | null };
  const stream = (client as unknown as Record<string, () => NodeJS.ReadWriteStream>)["ModelStreamInfer"]!.call(client);
  const said: Said[] = [];
  stream.on("data", (answer: Said) => said.push(answer));
  const ended = new Promise((resolve) => stream.on("end", resolve));
  for (let i = 0; i < 300; i++) stream.write({ ...typed(i, 0, 0, 0), id: String(i) } as never);
  stream.write({ model_name: "nobody", id: "bad" } as never);
  stream.end();
  await ended;
  expect(said).toHaveLength(301);
  const answered = said.filter(({ error_message: error }) => error === "");
  for (const { infer_response: response } of answered)
    expect(floats(response!.raw_output_contents[0]!)[0]).toBe(2 * Number(response!.id));
  const [bad] = said.filter(({ error_message: error }) => error !== "");
  expect([bad?.infer_response?.id, bad?.error_message]).toEqual(["bad", expect.stringContaining("nobody")]);
});

test("a stop waits for requests under way, and not for a stream that stays open", async () => {
  const other = await GatewayScene.open({ drainMs: 300 });
  const streaming = new (inferenceService())(other.addresses.grpc, credentials.createInsecure());
  const stream = (streaming as unknown as Record<string, () => NodeJS.ReadWriteStream>)["ModelStreamInfer"]!.call(
    streaming,
  );
  const failed = new Promise((resolve) => stream.on("error", resolve));
  stream.on("data", () => undefined);
  stream.write({ ...typed(1, 0, 0, 0), id: "1" } as never);
  await other.until(() => other.seen.length === 1);
  await other.close();
  expect(await failed).toBeInstanceOf(Error);
  streaming.close();
});

test("everybody reads the repository's index, and models are changed with the admin token alone", async () => {
  const metadata = { authorization: `Bearer ${TOKEN}` };
  for (const name of ["RepositoryModelLoad", "RepositoryModelUnload"])
    expect((await failure(call(name, { model_name: "twice" }))).code).toBe(status.UNAUTHENTICATED);
  expect(await call("RepositoryIndex")).toEqual({
    models: [{ name: "twice", version: "1", state: "READY", reason: "" }],
  });
  expect(await call("RepositoryModelLoad", { model_name: "twice" }, { metadata })).toEqual({});
  const parameters = { "file:1/model.onnx": { bytes_param: Buffer.from("no model") } };
  const junk = await failure(call("RepositoryModelLoad", { model_name: "junk", parameters }, { metadata }));
  expect(junk.code).toBe(status.INVALID_ARGUMENT);
  expect(await call("RepositoryModelUnload", { model_name: "twice" }, { metadata })).toEqual({});
  expect(await call("RepositoryIndex")).toEqual({
    models: [{ name: "twice", version: "1", state: "UNAVAILABLE", reason: "unloaded" }],
  });
});

const { ModelInfer } = inferenceService().service;
const contents = (field: string, data: readonly unknown[]) => ({ [field]: data });
/** A request as the gateway reads it once a client has encoded it. */
const request = (input: object, raw: Uint8Array[] = [], rest: object = {}): InferMessage =>
  readInferMessage(
    ModelInfer!.requestSerialize({
      model_name: "m",
      inputs: [{ name: "x", datatype: "FP32", shape: [2], ...input }],
      raw_input_contents: raw,
      ...rest,
    }),
  );
const tensorsOfRequest = (asked: InferMessage) => boundedTensors(asked, () => 100);
const refusalOf = (asked: InferMessage): string => asked.refusal?.message ?? "";
const FIELDS: readonly (readonly [DataType, string, readonly unknown[]])[] = [
  ["BOOL", "bool_contents", [true, false]],
  ["INT8", "int_contents", [-128, 127]],
  ["INT16", "int_contents", [-5, 5]],
  ["INT32", "int_contents", [-(2 ** 31), 7]],
  ["INT64", "int64_contents", ["-9223372036854775808", "9007199254740993"]],
  ["UINT8", "uint_contents", [0, 255]],
  ["UINT16", "uint_contents", [0, 65_535]],
  ["UINT32", "uint_contents", [0, 2 ** 32 - 1]],
  ["UINT64", "uint64_contents", ["0", "18446744073709551615"]],
  ["FP32", "fp32_contents", [1.5, NaN]],
  ["FP64", "fp64_contents", [0.1, -Infinity]],
];

test("every datatype is read from its typed contents; what a type can't hold, or has none of, is refused", () => {
  expect(FIELDS.map(([type]) => type).sort()).toEqual(
    Object.keys(DATA_TYPES)
      .filter((type) => type !== "FP16")
      .sort(),
  );
  for (const [datatype, field, data] of FIELDS) {
    const [tensor] = tensorsOfRequest(request({ datatype, contents: contents(field, data) }));
    expect(tensor?.data, datatype).toEqual(bytesFromValues("x", datatype, [2], data));
    expect(tensor?.data.byteLength).toBe(2 * bytesOf(datatype));
  }
  expect(() => tensorsOfRequest(request({ datatype: "INT8", contents: contents("int_contents", [1, 300]) }))).toThrow(
    "300",
  );
  expect(() => tensorsOfRequest(request({ datatype: "FP16", contents: contents("fp32_contents", [1, 2]) }))).toThrow(
    "raw",
  );
  expect(() => tensorsOfRequest(request({ datatype: "BYTES", contents: contents("bytes_contents", []) }))).toThrow(
    "BYTES",
  );
  expect(() => tensorsOfRequest(request({}))).toThrow("has 2 elements, data has 0");
  expect(() => tensorsOfRequest(request({}, [new Uint8Array(7)]))).toThrow("takes 8 bytes");
  expect(() => tensorsOfRequest(request({}, [new Uint8Array(8), new Uint8Array(8)]))).toThrow(
    "2 raw_input_contents for 1",
  );
  expect(() => tensorsOfRequest(request({ shape: [-1] }))).toThrow("shape");
});

test("contents in two places, or in the field of another datatype, are refused by the names of the fields", () => {
  const floats = contents("fp32_contents", [1, 2]);
  const cases: readonly (readonly [object, Uint8Array[], string])[] = [
    [{ contents: floats }, [new Uint8Array(8)], 'input "x" has both fp32_contents and raw_input_contents: send one'],
    [{ contents: { ...floats, int_contents: [1] } }, [], 'input "x" has both int_contents and fp32_contents: send one'],
    [
      { datatype: "INT64", contents: contents("int_contents", [1, 2]) },
      [],
      "its elements are in int_contents, those of INT64 are read from int64_contents",
    ],
    [
      { datatype: "BYTES", contents: floats },
      [],
      "its elements are in fp32_contents, those of BYTES are read from bytes_contents",
    ],
  ];
  for (const [input, raw, text] of cases) expect(() => tensorsOfRequest(request(input, raw)), text).toThrow(text);
  // Some clients send an empty message of contents beside raw ones.
  expect(tensorsOfRequest(request({ contents: contents("fp32_contents", []) }, [new Uint8Array(8)]))).toHaveLength(1);
});

test("inputs in shared memory have no contents, and those beside them keep theirs", () => {
  const region = (bytes: number) => ({
    shared_memory_region: { string_param: "r" },
    shared_memory_byte_size: { int64_param: bytes },
  });
  const input = { name: "x", datatype: "FP32", shape: [2], parameters: region(8) };
  const sent = { name: "y", datatype: "FP32", shape: [1] };
  const [inRegion, raw] = tensorsOfRequest(request({}, [new Uint8Array(4)], { inputs: [input, sent] }));
  expect([inRegion!.slice, raw!.slice, raw!.data.byteLength]).toEqual([
    { region: "r", offset: 0, bytes: 8 },
    undefined,
    4,
  ]);
  expect(() => tensorsOfRequest(request(input, [new Uint8Array(4)]))).toThrow("1 raw_input_contents for 0 inputs");
  const twice = request({ ...input, contents: contents("fp32_contents", [1, 2]) });
  expect(() => tensorsOfRequest(twice)).toThrow("lies in shared memory and is sent too");
  expect(() => tensorsOfRequest(request({ parameters: region(4) }))).toThrow("takes 8 bytes");
  expect(refusalOf(request({ parameters: { shared_memory_region: {} } }))).toContain("has no value");
});

test("a request says only so much beside its tensors, over gRPC as over HTTP", () => {
  const parameters = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`p${i}`, { bool_param: true }]));
  const input = (count: number) => ({ contents: contents("fp32_contents", [1, 2]), parameters: parameters(count) });
  const ofRequest = (count: number) => request({}, [], { parameters: parameters(count) });
  expect(Object.keys(ofRequest(64).parameters)).toHaveLength(64);
  expect(refusalOf(ofRequest(65))).toContain("the request has more than 64 parameters (PARAMETERS_MAX)");
  expect(tensorsOfRequest(request(input(64)))).toHaveLength(1);
  expect(refusalOf(request(input(65)))).toContain('input "x" has more than 64 parameters (PARAMETERS_MAX)');
  const outputs = [{ name: "y", parameters: parameters(64) }, { name: "z" }];
  expect(outputsOfRequest(request({}, [], { outputs }))).toMatchObject([{ name: "y" }, { name: "z" }]);
  expect(refusalOf(request({}, [], { outputs: [{ name: "y", parameters: parameters(65) }] }))).toContain(
    'output "y" has more than 64 parameters',
  );
  for (const kind of ["inputs", "outputs"])
    expect(refusalOf(request({}, [], { [kind]: Array(65).fill({ name: "y" }) }))).toContain("TENSORS_MAX");
  expect([idOfRequest(""), idOfRequest("x".repeat(256))]).toEqual([undefined, "x".repeat(256)]);
  expect(() => idOfRequest("x".repeat(257))).toThrow("ID_LENGTH_MAX");
});

test("typed contents beyond the bound are refused with the advice to send raw ones", async () => {
  const ones = Array<number>(400_000).fill(1);
  const input = { name: "x", datatype: "FP32", shape: [100_000, 4], contents: { fp32_contents: ones } };
  const long = await failure(call("ModelInfer", { model_name: "twice", inputs: [input] }));
  expect([long.code, long.details]).toEqual([status.RESOURCE_EXHAUSTED, expect.stringContaining("raw_input_contents")]);
});

test("no element is read of an input that has more of them than the model takes", async () => {
  const input = { name: "x", datatype: "FP32", shape: [9, 4], contents: { fp32_contents: Array(36).fill(1) } };
  const ask = (one: object): Promise<ServiceError> =>
    failure(call("ModelInfer", { model_name: "twice", inputs: [one] }));
  // Eight rows of four numbers are the most.
  expect((await ask(input)).details).toContain("shape [9, 4] has 36 elements, of at most 32");
  expect((await ask({ ...input, name: "z" })).details).toContain('"twice" has no input "z"');
  expect(() => tensorsOfRequest(request({ contents: { fp32_contents: [1, 2, 3] } }))).toThrow("data has more");
  const many = { ...input, shape: [GRPC_ELEMENTS_MAX + 1], contents: { bool_contents: [] }, datatype: "BOOL" };
  expect((await failure(call("ModelInfer", { model_name: "nobody", inputs: [many] }))).details).toContain(
    `of at most ${GRPC_ELEMENTS_MAX}`,
  );
  const strings = request({ datatype: "BYTES", shape: [GRPC_ELEMENTS_MAX + 1] });
  expect(() => tensorsOfRequest(strings)).toThrow(`of at most ${GRPC_ELEMENTS_MAX}`);
});

test("whatever a message says of its tensors, it is read or refused as INVALID_INPUT (T8)", () => {
  const anything = fc.record({
    name: fc.string(),
    datatype: fc.oneof(fc.string(), fc.constantFrom(...Object.keys(DATA_TYPES))),
    shape: fc.array(fc.oneof(fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n).map(String), fc.nat(4).map(String))),
    contents: fc.option(fc.array(fc.float()).map((data) => contents("fp32_contents", data))),
  });
  fc.assert(
    fc.property(anything, fc.array(fc.uint8Array(), { maxLength: 2 }), (input, raw) => {
      try {
        tensorsOfRequest(request(input, raw));
      } catch (error) {
        expect((error as TuttiError).code).toBe("TUTTI_INVALID_INPUT");
      }
    }),
  );
});
