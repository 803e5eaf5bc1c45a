/** Pictures and sounds posted as files. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { floatsOf, generateCnn, imageTensor, presentationOf, writeWav } from "@tutti/onnx-tools";
import { type Tensor, TuttiError } from "@tutti/protocol";
import sharp from "sharp";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { GatewayScene, TOKEN, answerTwice, twice } from "../testing/gateway-scene.ts";

/** One scene for all tests: its threads start once. */
let scene: GatewayScene;
beforeAll(async () => {
  scene = await GatewayScene.open();
});
beforeEach(() => {
  scene.seen.length = 0;
  scene.react = answerTwice;
});
afterAll(() => scene.close());

const PICTURE = { kind: "image", tensor: "x", resize: "stretch", height: 2, width: 3, order: "rgb" } as const;
const IMAGE = { ...PICTURE, mean: [0, 0, 0], std: [1, 1, 1] } as const;
const SOUND = { kind: "sound", tensor: "x", sampleRate: 8_000, rank: 2, samples: 6 } as const;
const FRAMES = {
  ...{ kind: "audio", tensor: "x", sampleRate: 8_000, frame: 2, context: 1 },
  state: { input: "s", output: "s2", dims: [1] },
} as const;

const serve = (name: string, input: object, more: object = {}) =>
  scene.serve({ ...twice, name, presentation: { input }, ...more });
const one = (name: string, ...values: number[]): Tensor => ({
  ...{ name, type: "FP32", dims: [1, values.length], data: new Uint8Array(Float32Array.from(values).buffer) },
});

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Readonly<Record<string, unknown>>;
}
async function post(
  model: string,
  type: string,
  body: Uint8Array<ArrayBuffer>,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const url = `${scene.addresses.http}/v2/models/${model}/infer`;
  // Decoding counts against the SLO, and this machine may be busy.
  const all = { "content-type": type, "tutti-slo": "60s", ...headers };
  const response = await fetch(url, { method: "POST", body, headers: all });
  return { status: response.status, headers: response.headers, body: (await response.json()) as Answer["body"] };
}
const drawn = () => sharp({ create: { width: 30, height: 20, channels: 3, background: { r: 255, g: 51, b: 0 } } });
const bytesOf = async (picture: ReturnType<typeof drawn>): Promise<Uint8Array<ArrayBuffer>> =>
  new Uint8Array(await picture.toBuffer());

test("a PNG, a WebP and a JPEG become the input that the configuration says, and the answer is as any other", async () => {
  await serve("see", IMAGE);
  const expected = imageTensor(
    { rgb: Uint8Array.from({ length: 18 }, (_, i) => [255, 51, 0][i % 3]!), width: 3, height: 2 },
    IMAGE,
  );
  for (const [type, picture] of [
    ["image/png", drawn().png()],
    ["image/webp; q=1", drawn().webp({ lossless: true })],
    ["IMAGE/JPEG", drawn().jpeg({ quality: 100 })],
  ] as const) {
    const { status, body } = await post("see", type, await bytesOf(picture), { "tutti-app": "camera" });
    expect([status, body["model_name"]], JSON.stringify(body)).toEqual([200, "see"]);
    const { subject, inputs } = scene.seen.at(-1)!;
    expect(subject).toBe("infer.see.camera");
    expect(inputs.map(({ name, dims }) => [name, dims])).toEqual([["x", [1, 3, 2, 3]]]);
    const given = floatsOf(inputs[0]!);
    floatsOf(expected).forEach((value, i) => expect(given[i]).toBeCloseTo(value, type === "IMAGE/JPEG" ? 1 : 6));
  }
});

test("what the decoding took is taken from the SLO, so the answer is due as soon as without it", async () => {
  await serve("see", IMAGE);
  await post("see", "image/png", await bytesOf(drawn().png()), { "tutti-slo": "50s" });
  const told = Number(scene.seen.at(-1)!.header("Tutti-Slo")?.replace("us", ""));
  expect(told).toBeGreaterThan(0);
  expect(told).toBeLessThan(50_000_000);
  const late = await post("see", "image/png", await bytesOf(drawn().png()), { "tutti-slo": "1us" });
  expect([late.status, late.body["code"]]).toEqual([504, "TUTTI_DEADLINE_EXCEEDED"]);
});

test("outputs come as raw bytes to who accepts them", async () => {
  await serve("see", IMAGE);
  const response = await fetch(`${scene.addresses.http}/v2/models/see/infer`, {
    method: "POST",
    body: await bytesOf(drawn().png()),
    headers: { "content-type": "image/png", "tutti-slo": "60s", accept: "application/octet-stream" },
  });
  expect(response.headers.get("content-type")).toBe("application/octet-stream");
  const bytes = await response.arrayBuffer();
  expect(bytes.byteLength - Number(response.headers.get("inference-header-content-length"))).toBe(18 * 4 + 8);
});

test("a sound becomes one tensor, filled up with silence; one that is too long or of another rate is refused with the cure", async () => {
  await serve("hear", SOUND);
  const short = await post(
    "hear",
    "audio/wav",
    writeWav({ sampleRate: 8_000, samples: Float32Array.of(0.5, -0.25, 0.125) }),
  );
  expect(short.status, JSON.stringify(short.body)).toBe(200);
  const [input] = scene.seen.at(-1)!.inputs;
  expect([input!.dims, [...floatsOf(input!)]]).toEqual([
    [1, 6],
    [0.5, -0.25, 0.125, 0, 0, 0],
  ]);
  const long = await post("hear", "audio/x-wav", writeWav({ sampleRate: 8_000, samples: new Float32Array(7) }));
  expect([long.status, long.body["error"]]).toEqual([413, expect.stringContaining("cut it, ffmpeg")]);
  const other = await post("hear", "audio/wav", writeWav({ sampleRate: 44_100, samples: new Float32Array(3) }));
  expect([other.status, other.body["error"]]).toEqual([400, expect.stringContaining("-ar 8000")]);
});

test("sound that a model takes frame by frame is asked for in order, each frame with the state that the last one left", async () => {
  const [x] = twice.inputs;
  const tensors = {
    inputs: [x, { ...x, name: "s" }],
    outputs: [
      { ...x, name: "y" },
      { ...x, name: "s2" },
    ],
  };
  await serve("listen", FRAMES, tensors);
  let busy = 2;
  scene.react = ({ inputs }) => {
    if (busy-- > 0) return new TuttiError("TUTTI_DEADLINE_EXCEEDED", "busy");
    const [frame, s] = [floatsOf(inputs[0]!), floatsOf(inputs[1]!)];
    return [one("y", frame[1]! + 10 * s[0]!), one("s2", s[0]! + 1)];
  };
  const sound = writeWav({ sampleRate: 8_000, samples: Float32Array.of(0.5, 0, 0.25, 0, 0.125) });
  const { status, body } = await post("listen", "audio/wav", sound);
  const y = { name: "y", datatype: "FP32", shape: [3, 1], data: [0.5, 10.25, 20.125] };
  expect([status, body["outputs"]], JSON.stringify(body)).toEqual([200, [y]]);
});

test("what names no pre-processor, or another, is refused before the body is read, saying what to write", async () => {
  await serve("hear", SOUND);
  for (const [model, type, cure] of [
    ["twice", "image/png", "preprocess: {image:"],
    ["hear", "image/png", "preprocess: {image:"],
    ["twice", "audio/wav", "preprocess: {audio:"],
    ["twice", "image/gif", "send image/jpeg, image/png, image/webp, audio/wav"],
    ["twice", "video/mp4", "send image/jpeg"],
  ] as const) {
    const { status, body } = await post(model, type, new Uint8Array(3));
    expect([status, body["code"], body["error"]]).toEqual([400, "TUTTI_INVALID_INPUT", expect.stringContaining(cure)]);
  }
  expect(scene.seen).toEqual([]);
});

test("a file that is none, is cut off or claims to be huge is the sender's fault, and the next one is served", async () => {
  await serve("see", IMAGE);
  const whole = await bytesOf(drawn().png());
  const bomb = whole.slice();
  new DataView(bomb.buffer).setUint32(16, 60_000);
  new DataView(bomb.buffer).setUint32(20, 60_000);
  for (const [body, status] of [
    [new Uint8Array(0), 400],
    [new TextEncoder().encode("<svg/>"), 400],
    [whole.slice(0, whole.length / 2), 400],
    [bomb, 413],
  ] as const)
    expect((await post("see", "image/png", body)).status).toBe(status);
  expect((await post("see", "image/png", whole)).status).toBe(200);
});

test("a pipeline gets the file as it is, and JSON too; what is neither model nor pipeline is not found", async () => {
  scene.pipelines.add("read");
  const receipt = new Uint8Array(readFileSync(join(import.meta.dirname, "../../../pipeline-ocr/fixtures/receipt.jpg")));
  scene.react = () => [one("text", 7)];
  const own = { method: "POST", body: receipt, headers: { "content-type": "image/jpeg" } };
  await (await fetch(`${scene.addresses.http}/v2/models/read/infer`, own)).arrayBuffer();
  expect(await post("read", "image/jpeg", receipt)).toMatchObject({
    status: 200,
    body: { model_name: "read", outputs: [{ name: "text", data: [7] }] },
  });
  const [seen] = scene.seen;
  expect(seen!.header("Tutti-Slo")).toBeUndefined(); // the model's SLO, which the ingress knows
  expect([seen!.inputs[0]!.name, seen!.inputs[0]!.type, seen!.inputs[0]!.dims]).toEqual([
    "image",
    "UINT8",
    [receipt.length],
  ]);
  expect(seen!.inputs[0]!.data).toEqual(receipt);
  const inputs = [{ name: "x", datatype: "FP32", shape: [1, 1], data: [3] }];
  const json = new TextEncoder().encode(JSON.stringify({ inputs }));
  expect((await post("read", "application/json", json)).status).toBe(200);
  expect((await post("nobody", "image/jpeg", receipt)).status).toBe(404);
  expect((await post("nobody/versions/2", "image/jpeg", receipt)).status).toBe(404);
});

test("a model's configuration says which pre-processor it has, and the repository refuses one that doesn't fit, naming the key", async () => {
  await serve("see", IMAGE);
  const config = (await (await fetch(`${scene.addresses.http}/v2/models/see/config`)).json()) as {
    parameters: { preprocess: { string_value: string } };
  };
  const told = { input: JSON.parse(config.parameters.preprocess.string_value) as unknown };
  expect(presentationOf(told).input).toEqual(IMAGE);
  const file = Buffer.from(generateCnn()).toString("base64");
  const load = (preprocess: unknown): Promise<Response> =>
    fetch(`${scene.addresses.http}/v2/repository/models/cnn/load`, {
      method: "POST",
      headers: { authorization: `Bearer ${TOKEN}` },
      body: JSON.stringify({
        parameters: { "file:1/model.onnx": file, config: JSON.stringify({ slo: "1s", preprocess }) },
      }),
    });
  const refused = await load({ image: { size: [64, 64] } });
  expect([refused.status, await refused.text()]).toEqual([
    400,
    expect.stringMatching(/preprocess\.image\.size: 'image' is .*32 × 32, not 64 × 64/),
  ]);
});
