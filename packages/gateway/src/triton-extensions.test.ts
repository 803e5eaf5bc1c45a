/** What Triton's protocol has beyond tensors of numbers, over both transports as its clients send it. */
import { floatsOf } from "@tutti/onnx-tools";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { textsOf } from "./oip/bytes-elements.ts";
import { GatewayScene, answerTwice, twice } from "./testing/gateway-scene.ts";
import { type AskedInput, OipClient, TRANSPORTS, floatBytes } from "./testing/oip-client.ts";

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
/** 1, -2, 0.5 and 4 are BF16 too. */
const BF16: AskedInput = {
  ...{ name: "x", datatype: "BF16", shape: [1, 4] },
  bytes: new Uint8Array(Uint16Array.of(0x3f80, 0xc000, 0x3f00, 0x4080).buffer),
};

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
  const binary = { ...asked, outputs: [{ name: "y", parameters: { classification: 2, binary_data: true } }] };
  const { outputs, error } = await client.ask(transport, "named", transport === "http" ? binary : asked);
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
