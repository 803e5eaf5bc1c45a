/** KServe's V1 protocol, as its clients and those of TensorFlow Serving ask. */
import sharp from "sharp";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { GatewayScene, answerTwice, twice } from "../testing/gateway-scene.ts";
import { floatBytes } from "../testing/oip-client.ts";

let scene: GatewayScene;
beforeAll(async () => {
  scene = await GatewayScene.open();
});
beforeEach(() => {
  scene.seen.length = 0;
  scene.react = answerTwice;
});
afterAll(() => scene.close());

async function get(path: string, init: RequestInit = {}): Promise<readonly [number, unknown]> {
  const response = await fetch(`${scene.addresses.http}/v1/models${path}`, init);
  return [response.status, await response.json()];
}
const predict = (body: unknown, model = "twice", headers = {}): Promise<readonly [number, unknown]> =>
  get(`/${model}:predict`, { method: "POST", body: JSON.stringify(body), headers });
const refusal = (text: string): unknown => [
  400,
  expect.objectContaining({ code: "TUTTI_INVALID_INPUT", error: expect.stringContaining(text) as unknown }),
];

test("rows are answered by rows, columns by columns", async () => {
  const rows = [
    { y: [2, 4, 6, 8], n: [10] },
    { y: [10, 12, 14, 1.1], n: [18] },
  ];
  const instances = [
    [1, 2, 3, 4],
    [5, 6, 7, 0.55],
  ];
  expect(await predict({ instances })).toEqual([200, { predictions: rows }]);
  expect(await predict({ instances: instances.map((x) => ({ x })) })).toEqual([200, { predictions: rows }]);
  const columns = { y: rows.map(({ y }) => y), n: [[10], [18]] };
  expect(await predict({ inputs: instances })).toEqual([200, { outputs: columns }]);
  expect(await predict({ inputs: { x: instances } })).toEqual([200, { outputs: columns }]);
  const headers = { "tutti-app": "shop", "tutti-slo": "30ms", "content-type": "application/json" };
  expect(await predict({ instances: [[1, 2, 3, 4]], signature_name: "any" }, "twice", headers)).toMatchObject([
    200,
    {},
  ]);
  const { subject, header } = scene.seen.at(-1)!;
  expect([subject, header("Tutti-Slo")]).toEqual(["infer.twice.shop", "30000us"]);
});

test("the only output stands by itself, and a model without a batch axis takes one row", async () => {
  const [x] = twice.inputs;
  await scene.serve({
    ...{ ...twice, name: "single", inputs: [{ ...x!, dims: [2, 2] }] },
    outputs: [{ name: "y", type: "FP32", dims: [2] }],
  });
  scene.react = () => [{ name: "y", type: "FP32", dims: [2], data: floatBytes(3, NaN) }];
  const instance = [
    [1, 2],
    [3, 4],
  ];
  expect(await predict({ instances: [instance] }, "single")).toEqual([200, { predictions: [[3, "NaN"]] }]);
  expect(scene.seen.at(-1)!.inputs[0]!.dims).toEqual([2, 2]);
  expect(await predict({ inputs: instance }, "single")).toEqual([200, { outputs: [3, "NaN"] }]);
});

test("a picture is bytes in base64, read and answered beside the main thread where it is long", async () => {
  const input = { kind: "image", tensor: "x", resize: "stretch", height: 100, width: 100, order: "rgb" };
  const side = { ...twice.inputs[0]!, dims: ["batch", 3, 100, 100] };
  const presentation = { input: { ...input, mean: [0, 0, 0], std: [1, 1, 1] } };
  await scene.serve({ ...twice, name: "see", inputs: [side], outputs: [{ ...side, name: "y" }], presentation });
  scene.react = ({ inputs }) => inputs.map((tensor) => ({ ...tensor, name: "y" }));
  const create = { width: 200, height: 200, channels: 3, noise: { type: "gaussian", mean: 128, sigma: 30 } } as const;
  const png = await sharp({ create: { ...create, background: "#000" } })
    .png()
    .toBuffer();
  const b64 = png.toString("base64");
  expect(b64.length).toBeGreaterThan(65_536);
  const patient = { "tutti-slo": "60s" };
  for (const instance of [{ b64 }, { x: { b64 } }]) {
    const [status, body] = await predict({ instances: [instance] }, "see", patient);
    expect(status).toBe(200);
    const [[channel]] = (body as { predictions: number[][][][] }).predictions as [number[][][]];
    expect([channel!.length, channel![0]!.length, scene.seen.at(-1)!.inputs[0]!.dims]).toEqual([
      ...[100, 100, [1, 3, 100, 100]],
    ]);
  }
  expect(await predict({ instances: [{ b64 }, { b64 }] }, "see", patient)).toEqual(refusal("one element"));
  expect(await predict({ instances: [{ b64: "§" }] }, "see", patient)).toEqual(refusal("base64"));
  expect(await predict({ instances: [{ b64: "AAAA" }] })).toEqual(refusal("takes no picture or sound"));
});

test("what is no request of V1 is refused with its place (T8)", async () => {
  const row = [1, 2, 3, 4];
  const faults: (readonly [unknown, string])[] = [
    [[], '"instances" (rows) or "inputs" (columns)'],
    [{}, '"instances" (rows) or "inputs" (columns)'],
    [{ instances: [row], inputs: [row] }, '"instances" (rows) or "inputs" (columns)'],
    [{ instances: [] }, "at least one row"],
    [{ instances: [{ x: row }, { z: row }] }, "instances[1]"],
    [{ instances: [{ x: row }, row] }, "instances[1]"],
    [{ instances: [{ z: row }] }, 'no input "z"'],
    [{ instances: [row, [1]] }, "ragged"],
    [{ instances: [[1, 2, 3, "4"]] }, "is no FP32"],
    [{ inputs: [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]] }, "deep"],
    [{ instances: [{ x: row, y: row }] }, 'no input "y"'],
    [{ instances: [Object.fromEntries(Array.from({ length: 2_000 }, (_, i) => [`x${i}`, row]))] }, "at most"],
  ];
  for (const [body, text] of faults) expect(await predict(body), JSON.stringify(body)).toEqual(refusal(text));
  const [, long] = await predict({ instances: [{ ["x".repeat(60_000)]: row }, {}] });
  expect(JSON.stringify(long).length).toBeLessThan(400); // nobody gets back as much as was sent
  const two = twice.inputs.flatMap((x) => [x, { ...x, name: "z" }]);
  await scene.serve({ ...twice, name: "both", inputs: two });
  expect(await predict({ instances: [row] }, "both")).toEqual(refusal('"x", "z": name them'));
  expect(await predict({ instances: [row] }, "nobody")).toMatchObject([404, { code: "TUTTI_NOT_FOUND" }]);
  expect(scene.seen).toEqual([]);
});

test("models are listed and ready in V1's form", async () => {
  scene.populate();
  while ((await get("/twice"))[0] !== 200);
  expect(await get("/twice")).toEqual([200, { name: "twice", ready: true }]);
  expect(await get("/nobody")).toMatchObject([404, {}]);
  const [, body] = await get("");
  expect((body as { readonly models: string[] }).models).toContain("twice");
});
