/** Triton's extensions beyond tensors of numbers, over both transports as its clients send them. */
import { floatsOf, writeWav } from "@tutti/onnx-tools";
import type { Tensor } from "@tutti/protocol";
import sharp from "sharp";
import { millis } from "@tutti/units";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { packElements, textsOf } from "./oip/bytes-elements.ts";
import { GatewayScene, answerTwice, twice } from "./testing/gateway-scene.ts";
import { type Answered, type Asked, type AskedInput, OipClient, TRANSPORTS, floatBytes } from "./testing/oip-client.ts";

let scene: GatewayScene;
let client: OipClient;
beforeAll(async () => {
  scene = await GatewayScene.open();
  client = new OipClient(scene.addresses);
});
beforeEach(() => {
  scene.seen.length = 0;
  scene.react = answerTwice;
});
afterAll(async () => {
  client.close();
  await scene.close();
});

const x = (...values: number[]): AskedInput => ({
  ...{ name: "x", datatype: "FP32", shape: [values.length / 4, 4], bytes: floatBytes(...values) },
});
/** 1, -2, 0.5 and 4 are exact in BF16 too. */
const BF16: AskedInput = {
  ...{ name: "x", datatype: "BF16", shape: [1, 4] },
  bytes: new Uint8Array(Uint16Array.of(0x3f80, 0xc000, 0x3f00, 0x4080).buffer),
};

const one = (name: string, ...values: number[]): Tensor => ({
  ...{ name, type: "FP32", dims: [1, values.length], data: floatBytes(...values) },
});
const file = (bytes: Uint8Array, name = "x"): AskedInput => ({
  ...{ name, datatype: "BYTES", shape: [1], bytes: packElements([bytes]) },
});
const IMAGE = {
  ...{ kind: "image", tensor: "x", resize: "stretch", height: 2, width: 3, order: "rgb" },
  ...{ mean: [0, 0, 0], std: [1, 1, 1] },
};
const red = async (): Promise<Uint8Array> => {
  const create = { width: 30, height: 20, channels: 3, background: { r: 255, g: 0, b: 0 } } as const;
  return new Uint8Array(await sharp({ create }).png().toBuffer());
};
/** Decoding counts against the SLO, and this machine may be busy. */
const PATIENT = { "tutti-slo": "60s" };

test.each(TRANSPORTS)("a priority reaches the cluster in its own order (%s)", async (transport) => {
  await client.ask(transport, "twice", { inputs: [x(1, 2, 3, 4)], parameters: { priority: 1 } });
  await client.ask(transport, "twice", { inputs: [x(1, 2, 3, 4)], parameters: { priority: 300 } });
  await client.ask(transport, "twice", { inputs: [x(1, 2, 3, 4)] });
  expect(scene.seen.map(({ header }) => header("Tutti-Priority"))).toEqual(["255", "0", undefined]);
});

test.each(TRANSPORTS)("BF16 becomes the FP32 that the model takes (%s)", async (transport) => {
  const { outputs, error } = await client.ask(transport, "twice", { inputs: [BF16] });
  expect(error).toBeUndefined();
  const [seen] = scene.seen;
  expect([seen!.inputs[0]!.type, [...floatsOf(seen!.inputs[0]!)]]).toEqual(["FP32", [1, -2, 0.5, 4]]);
  expect([...new Float32Array(outputs[0]!.data.buffer)]).toEqual([2, -4, 1, 8]);
  const short = await client.ask(transport, "twice", { inputs: [{ ...BF16, bytes: new Uint8Array(16) }] });
  expect([short.code, short.error]).toEqual(["TUTTI_INVALID_INPUT", expect.stringContaining("takes 8 bytes")]);
  const nobody = await client.ask(transport, "twice", { inputs: [{ ...BF16, name: "z" }] });
  expect([nobody.code, nobody.error]).toEqual(["TUTTI_INVALID_INPUT", '"twice" has no input "z"']);
});

test.each(TRANSPORTS)("a classified output is the greatest elements by name, row by row (%s)", async (transport) => {
  const output = { kind: "classes", tensor: "y", labels: ["a", "b", "c"] };
  await scene.serve({ ...twice, name: "named", presentation: { output } });
  const asked = { inputs: [x(1, 4, 3, 2, 8, 7, 6, 5)], outputs: [{ name: "y", parameters: { classification: 2 } }] };
  const { outputs, error } = await client.ask(transport, "named", asked);
  expect(error).toBeUndefined();
  expect(outputs.map(({ name, datatype, shape }) => [name, datatype, shape])).toEqual([["y", "BYTES", [2, 2]]]);
  expect(textsOf(outputs[0]!.data)).toEqual(["8:1:b", "6:2:c", "16:0:a", "14:1:b"]);
  const mixed = await client.ask(transport, "named", {
    inputs: [x(1, 2, 3, 4)],
    outputs: [{ name: "n" }, { name: "y", parameters: { classification: 99 } }],
  });
  expect(mixed.outputs.map(({ name, datatype, shape }) => [name, datatype, shape])).toEqual([
    ["n", "INT64", [1, 1]],
    ["y", "BYTES", [1, 4]],
  ]);
});

test.each(TRANSPORTS)("a classification that can't be made is refused (%s)", async (transport) => {
  for (const classification of [-1, "3", true]) {
    const asked = { inputs: [x(1, 2, 3, 4)], outputs: [{ name: "y", parameters: { classification } }] };
    const { code, error } = await client.ask(transport, "twice", asked);
    expect([code, error]).toEqual(["TUTTI_INVALID_INPUT", expect.stringContaining("classification is a whole number")]);
  }
  expect(scene.seen).toEqual([]);
});

test("a classified output in JSON is a list of texts", async () => {
  const response = await fetch(`${scene.addresses.http}/v2/models/twice/infer`, {
    method: "POST",
    body: JSON.stringify({
      inputs: [{ name: "x", datatype: "FP32", shape: [1, 4], data: [1, 4, 3, 0.05] }],
      outputs: [{ name: "y", parameters: { classification: 4 } }],
    }),
  });
  expect(await response.json()).toMatchObject({
    outputs: [{ name: "y", datatype: "BYTES", shape: [1, 4], data: ["8:1", "6:2", "2:0", "0.1:3"] }],
  });
});

test.each(TRANSPORTS)("BYTES of one element are a picture for a model that takes one (%s)", async (transport) => {
  await scene.serve({ ...twice, name: "see", presentation: { input: IMAGE } });
  const answered = await client.ask(transport, "see", { inputs: [file(await red())] }, PATIENT);
  expect(answered.error).toBeUndefined();
  const [seen] = scene.seen;
  expect(seen!.inputs.map(({ name, type, dims }) => [name, type, dims])).toEqual([["x", "FP32", [1, 3, 2, 3]]]);
  expect([...floatsOf(seen!.inputs[0]!)]).toEqual([...Array<number>(6).fill(1), ...Array<number>(12).fill(0)]);
  const refused = async (input: AskedInput, model = "see"): Promise<string | undefined> => {
    const { code, error } = await client.ask(transport, model, { inputs: [input] }, PATIENT);
    expect(code).toBe("TUTTI_INVALID_INPUT");
    return error;
  };
  const two = packElements([new Uint8Array(3), new Uint8Array(3)]);
  expect(await refused({ ...file(new Uint8Array(3)), bytes: two })).toContain("one element, a whole file");
  expect(await refused({ ...file(new Uint8Array(3)), bytes: two, shape: [2] })).toContain("one element, a whole file");
  expect(await refused({ ...file(new Uint8Array(3)), bytes: new Uint8Array(3) })).toContain("one element");
  expect(await refused(file(await red(), "z"))).toContain('takes a picture or sound as its input "x"');
  expect(await refused(file(await red()), "twice")).toContain("BYTES (strings) is not served; send numbers");
  expect(await refused(file(new TextEncoder().encode("no picture")))).not.toContain("BYTES");
});

test("a file may come in gRPC's typed contents too, and not as a text in JSON", async () => {
  await scene.serve({ ...twice, name: "see", presentation: { input: IMAGE } });
  const input = { name: "x", datatype: "BYTES", shape: [1], contents: { bytes_contents: [await red()] } };
  const asked = { model_name: "see", inputs: [input] };
  expect(await client.call<object>("ModelInfer", asked, PATIENT)).toMatchObject({ model_name: "see" });
  const response = await fetch(`${scene.addresses.http}/v2/models/see/infer`, {
    method: "POST",
    body: JSON.stringify({ inputs: [{ name: "x", datatype: "BYTES", shape: [1], data: ["iVBORw0KGgo="] }] }),
  });
  expect([response.status, await response.text()]).toEqual([400, expect.stringContaining("binary_data_size")]);
});

test.each(TRANSPORTS)("a pipeline gets a file as its bytes (%s)", async (transport) => {
  scene.pipelines.add("read");
  scene.react = () => [one("text", 7)];
  const bytes = Uint8Array.of(1, 2, 3);
  const { outputs, error } = await client.ask(transport, "read", { inputs: [file(bytes, "image")] });
  expect([error, outputs.map(({ name }) => name)]).toEqual([undefined, ["text"]]);
  const [seen] = scene.seen.at(-1)!.inputs;
  expect([seen!.name, seen!.type, seen!.dims, [...seen!.data]]).toEqual(["image", "UINT8", [3], [1, 2, 3]]);
});

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);
/** A pipeline that answers with its text in capitals, as its ingress reports it. */
const capitals = async (): Promise<void> => {
  const texts = (name: string) => [{ name, datatype: "BYTES", shape: [-1] }];
  const report = { name: "shout", version: "1", slo: millis(400), stages: [{ name: "only", model: "twice" }] };
  scene.join("ingress", {}, () => ({ pipelines: [{ ...report, inputs: texts("in"), outputs: texts("out") }] }));
  scene.pipelines.add("shout");
  scene.react = ({ inputs: [{ data } = one("in")] }) => {
    const loud = utf8(new TextDecoder().decode(data).toUpperCase());
    return [{ name: "out", type: "UINT8", dims: [loud.byteLength], data: loud }, one("score", 1)];
  };
  while ((await fetch(`${scene.addresses.http}/v2/models/shout`)).status !== 200);
};

test.each(TRANSPORTS)(
  "a pipeline takes and answers text as BYTES, an element for each line (%s)",
  async (transport) => {
    await capitals();
    const given = (...texts: string[]): AskedInput => ({
      ...{ name: "in", datatype: "BYTES", shape: [texts.length], bytes: packElements(texts.map(utf8)) },
    });
    const { outputs, error } = await client.ask(transport, "shout", { inputs: [given("größe", "", "two")] });
    expect(error).toBeUndefined();
    expect(outputs.map(({ name, datatype, shape }) => [name, datatype, shape])).toEqual([
      ["out", "BYTES", [3]],
      ["score", "FP32", [1, 1]],
    ]);
    expect(textsOf(outputs[0]!.data)).toEqual(["GRÖSSE", "", "TWO"]);
    const refused = await client.ask(transport, "shout", { inputs: [given("two\nlines", "one")] });
    expect([refused.code, refused.error]).toEqual(["TUTTI_INVALID_INPUT", expect.stringContaining("one line of text")]);
  },
);

test("text is text in JSON, in V2's and in V1's form, and TYPE_STRING in the configuration", async () => {
  await capitals();
  const ask = async (path: string, body?: object): Promise<unknown> => {
    const init = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
    return (await fetch(scene.addresses.http + path, init)).json();
  };
  const input = (data: unknown[]) => ({ inputs: [{ name: "in", datatype: "BYTES", shape: [data.length], data }] });
  expect(await ask("/v2/models/shout/infer", input(["größe", "b"]))).toMatchObject({
    outputs: [{ name: "out", datatype: "BYTES", shape: [2], data: ["GRÖSSE", "B"] }, {}],
  });
  expect(await ask("/v2/models/shout/infer", input([1]))).toMatchObject({
    error: 'input "in": element 0 of BYTES is no text',
  });
  expect(await ask("/v1/models/shout:predict", { inputs: ["a", "b"] })).toMatchObject({ outputs: { out: ["A", "B"] } });
  expect(await ask("/v2/models/shout/config")).toMatchObject({ output: [{ name: "out", data_type: "TYPE_STRING" }] });
  expect(await client.call("ModelConfig", { name: "shout" })).toMatchObject({
    config: { input: [{ name: "in", data_type: "TYPE_STRING" }] },
  });
});

/** A model whose state is the number of frames that it has seen. */
const listen = async (): Promise<void> => {
  const [own] = twice.inputs;
  const input = {
    ...{ kind: "audio", tensor: "x", sampleRate: 8_000, frame: 2, context: 1 },
    state: { input: "s", output: "s2", dims: [1, 1] },
  };
  const inputs = [own!, { ...own!, name: "s" }];
  const outputs = ["y", "s2"].map((name) => ({ ...own!, name }));
  await scene.serve({ ...twice, name: "listen", inputs, outputs, presentation: { input } });
  scene.react = ({ inputs: [frame, state] }) => {
    const [first, seen] = [floatsOf(frame!)[1]!, floatsOf(state!)[0]!];
    return [one("y", first + 10 * seen), one("s2", seen + 1)];
  };
};

test.each(TRANSPORTS)("a sound is asked for frame by frame, whatever outputs are wanted (%s)", async (transport) => {
  await listen();
  const sound = writeWav({ sampleRate: 8_000, samples: Float32Array.of(0.5, 0, 0.25, 0, 0.125) });
  const asked = { inputs: [file(sound)], outputs: [{ name: "y" }] };
  const { outputs, error } = await client.ask(transport, "listen", asked, PATIENT);
  expect([error, outputs.map(({ name, shape }) => [name, shape])]).toEqual([undefined, [["y", [3, 1]]]]);
  expect([...new Float32Array(outputs[0]!.data.buffer)]).toEqual([0.5, 10.25, 20.125]);
});

const frame = (...values: number[]): AskedInput => ({
  ...{ name: "x", datatype: "FP32", shape: [1, values.length], bytes: floatBytes(...values) },
});
const valuesOf = ({ outputs }: Answered): unknown[] =>
  outputs.map(({ name, data }) => [name, ...new Float32Array(data.buffer)]);

test.each(TRANSPORTS)("the state of a sequence is filled in, kept and given up at its end (%s)", async (transport) => {
  await listen();
  const ask = (id: string | number, step: object, more: Partial<Asked> = {}): Promise<Answered> =>
    client.ask(transport, "listen", {
      ...{ inputs: [frame(0, 0.5, 0)], outputs: [{ name: "y" }] },
      parameters: { sequence_id: id, sequence_start: false, sequence_end: false, ...step },
      ...more,
    });
  expect(valuesOf(await ask(7, { sequence_start: true }))).toEqual([["y", 0.5]]);
  expect(valuesOf(await ask("seven", { sequence_start: true }))).toEqual([["y", 0.5]]);
  expect(valuesOf(await ask(7, {}))).toEqual([["y", 10.5]]);
  // All outputs were wanted: the state is one of them.
  const all = { outputs: [] };
  expect(valuesOf(await ask(7, {}, all))).toEqual([
    ["y", 20.5],
    ["s2", 3],
  ]);
  const given = { inputs: [frame(0, 0.5, 0), { ...frame(5), name: "s" }] };
  expect(valuesOf(await ask(7, {}, given))).toEqual([["y", 50.5]]);
  expect(valuesOf(await ask(7, { sequence_end: true }))).toEqual([["y", 60.5]]);
  expect(await ask(7, {})).toMatchObject({
    code: "TUTTI_INVALID_INPUT",
    error: expect.stringContaining("sequence 7") as unknown,
  });
  expect(valuesOf(await ask("seven", {}))).toEqual([["y", 10.5]]);
  const other = await client.ask(
    transport,
    "listen",
    { inputs: [frame(0, 1, 0)], parameters: { sequence_id: "seven" } },
    { "tutti-app": "other" },
  );
  expect(other.error).toContain("begin it with sequence_start");
});

test.each(TRANSPORTS)("sequences are refused by name where a model declares no state (%s)", async (transport) => {
  const refused = async (parameters: NonNullable<Asked["parameters"]>, model = "twice", input = x(1, 2, 3, 4)) => {
    const { code, error } = await client.ask(transport, model, { inputs: [input], parameters });
    expect(code).toBe("TUTTI_INVALID_INPUT");
    return error;
  };
  expect(await refused({ sequence_id: 3, sequence_start: true })).toContain('"twice" declares no state');
  scene.pipelines.add("read");
  expect(await refused({ sequence_id: 3, sequence_start: true }, "read")).toContain("sequences are not served");
  expect(await refused({ sequence_start: true })).toContain("need a sequence_id");
  expect(await refused({ sequence_id: -3 })).toContain("whole number from 1");
  expect(await refused({ sequence_id: "x".repeat(257) })).toContain("ID_LENGTH_MAX");
  await listen();
  const sound = file(writeWav({ sampleRate: 8_000, samples: Float32Array.of(0.5) }));
  expect(await refused({ sequence_id: 3, sequence_start: true }, "listen", sound)).toContain("no part of a sequence");
  scene.react = () => [one("y", 1), one("s2", 1, 2)];
  const wrong = await client.ask(transport, "listen", {
    inputs: [frame(0, 1, 0)],
    parameters: { sequence_id: 9, sequence_start: true },
  });
  expect([wrong.code, wrong.error]).toEqual(["TUTTI_INTERNAL", expect.stringContaining('8 bytes of "s2"')]);
});

test("requests of one sequence in one stream are answered in their order", async () => {
  await listen();
  const asked = Array.from({ length: 20 }, (_, i) => ({
    ...{ model_name: "listen", id: String(i), inputs: [{ name: "x", datatype: "FP32", shape: [1, 3] }] },
    parameters: { sequence_id: { int64_param: 4 }, sequence_start: { bool_param: i === 0 } },
    raw_input_contents: [floatBytes(0, 0, 0)],
  }));
  const answers = await client.stream(asked);
  const seen = answers.map(({ id, raw_output_contents: raw }) => [
    Number(id),
    new Float32Array(new Uint8Array(raw[0]!).buffer)[0],
  ]);
  expect(seen.sort((a, b) => a[0]! - b[0]!)).toEqual(Array.from({ length: 20 }, (_, i) => [i, 10 * i]));
});

test("trace and log settings are told, and what would change them is refused with the reason", async () => {
  const ask = async (path: string, change?: object): Promise<readonly [number, object]> => {
    const init = change === undefined ? {} : { method: "POST", body: JSON.stringify(change) };
    const response = await fetch(scene.addresses.http + path, init);
    return [response.status, (await response.json()) as object];
  };
  const logging = { log_error: true, log_warning: true, log_info: true, log_verbose_level: 0, log_format: "default" };
  const tracing = { trace_level: ["OFF"], trace_mode: "opentelemetry", trace_count: "-1", log_frequency: "0" };
  for (const [path, current, change] of [
    ["/v2/logging", { ...logging, log_file: "" }, { log_verbose_level: 1 }],
    ["/v2/trace/setting", { ...tracing, trace_file: "" }, { trace_level: ["TIMESTAMPS"] }],
    ["/v2/models/twice/trace/setting", { ...tracing, trace_file: "" }, { trace_rate: "1" }],
  ] as const) {
    expect(await ask(path)).toEqual([200, current]);
    expect(await ask(path, current)).toEqual([200, current]);
    expect(await ask(path, Object.fromEntries(Object.keys(current).map((name) => [name, null])))).toEqual([
      200,
      current,
    ]);
    const [status, { error }] = (await ask(path, change)) as readonly [number, { readonly error: string }];
    expect([status, error]).toEqual([400, expect.stringContaining(Object.keys(change)[0]!)]);
    expect((await ask(path, { [Object.keys(current)[0]!]: { toString: 1 } }))[0]).toBe(400);
  }
  expect((await ask("/v2/models/nobody/trace/setting"))[0]).toBe(404);
  const on = (value: boolean) => ({ parameter_choice: "bool_param", bool_param: value });
  const told = await client.call<{ settings: object }>("LogSettings", { settings: { log_info: { bool_param: true } } });
  expect(told.settings).toMatchObject({ log_info: on(true), log_verbose_level: { uint32_param: 0 } });
  const levels = (...value: string[]) => ({ settings: { trace_level: { value } }, model_name: "twice" });
  for (const asked of [levels(), levels("OFF")])
    expect(await client.call<{ settings: object }>("TraceSetting", asked)).toMatchObject({
      settings: { trace_level: { value: ["OFF"] }, trace_mode: { value: ["opentelemetry"] } },
    });
  for (const [method, change] of [
    ["TraceSetting", levels("TIMESTAMPS")],
    ["LogSettings", { settings: { log_file: { string_param: "/tmp/log" } } }],
  ] as const)
    await expect(client.call(method, change)).rejects.toMatchObject({
      code: 3,
      details: expect.stringContaining("can't be changed") as unknown,
    });
  await expect(client.call("TraceSetting", { model_name: "nobody" })).rejects.toMatchObject({ code: 5 });
});
