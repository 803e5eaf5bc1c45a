import { TuttiError } from "@tutti/protocol";
import { encodeRequest, encodeTensors } from "@tutti/wire";
import { expect, test } from "vitest";
import { inlineSteps } from "./inline-steps.ts";
import type { StageFunction } from "./step-function.ts";
import { type Tensors, tensorsOf, textOf, textTensor } from "./step-tensors.ts";
import type { StepCall, StepOutcome } from "./steps.ts";

const x = (...values: number[]): Tensors => ({
  x: { type: "FP32", dims: [1, values.length], data: Float32Array.from(values) },
});
const message = (...values: number[]): Uint8Array =>
  encodeTensors([
    { name: "x", type: "FP32", dims: [1, values.length], data: new Uint8Array(Float32Array.from(values).buffer) },
  ]);
const call = (more: Partial<StepCall> = {}): StepCall => ({
  pipeline: "p",
  function: "./m.ts#f",
  makes: "requests",
  app: "shop",
  body: { form: "binary", payload: message(1, 2) },
  id: undefined,
  parameters: undefined,
  stages: {},
  kept: {},
  ...more,
});
const run = (f: StageFunction, more: Partial<StepCall> = {}): Promise<StepOutcome | TuttiError> =>
  new Promise((resolve) => void inlineSteps({ "./m.ts#f": f }).run(call(more), resolve));
const valuesOf = (outcome: StepOutcome | TuttiError): number[][] => {
  if (outcome instanceof TuttiError) throw outcome;
  return outcome.messages.map((one) => Array.from(tensorsOf(one)["x"]!.data as Float32Array));
};

test("one request, a list of them, none, and with something kept are all results of a stage", async () => {
  expect(valuesOf(await run(({ input }) => input))).toEqual([[1, 2]]);
  expect(valuesOf(await run(() => [x(3), x(4)]))).toEqual([[3], [4]]);
  expect(valuesOf(await run(() => []))).toEqual([]);
  const outcome = (await run(() => ({ requests: [x(5)], keep: { boxes: [1] } }))) as StepOutcome;
  expect(outcome.keep?.value).toEqual({ boxes: [1] });
  expect(valuesOf(outcome)).toEqual([[5]]);
  expect(valuesOf(await run(() => Promise.resolve(x(6))))).toEqual([[6]]);
});

test("an input that is called `requests` is a tensor like any other", async () => {
  const outcome = (await run(() => ({ requests: x(1)["x"]! }))) as StepOutcome;
  expect(Object.keys(tensorsOf(outcome.messages[0]!))).toEqual(["requests"]);
});

test("a JSON body is read once: later calls get its tensors as a message, with its id and parameters", async () => {
  const payload = new TextEncoder().encode(
    JSON.stringify({
      id: "7",
      parameters: { lang: "en" },
      inputs: [{ name: "x", datatype: "FP32", shape: [1, 2], data: [1, 2] }],
    }),
  );
  const outcome = (await run(
    ({ input, request }) => {
      expect(request).toEqual({ pipeline: "p", app: "shop", id: "7", parameters: { lang: "en" } });
      input["x"]!.data[0] = 99; // its own: what later calls read stays as it was sent
      return x(0);
    },
    { body: { form: "json", payload } },
  )) as StepOutcome;
  expect(outcome.read).toMatchObject({ id: "7", parameters: { lang: "en" } });
  expect(Array.from(tensorsOf(outcome.read.payload!)["x"]!.data as Float32Array)).toEqual([1, 2]);
  const same = encodeRequest("binary", { inputs: [] });
  expect(((await run(() => x(0), { body: { form: "binary", payload: same } })) as StepOutcome).read.payload).toBe(
    undefined,
  );
});

test.each<[what: string, f: () => unknown, code: string, text: string]>([
  [
    "throws",
    () => {
      throw new Error("boom");
    },
    "TUTTI_INTERNAL",
    './m.ts#f of pipeline "p" failed: boom',
  ],
  [
    "finds the input wrong",
    () => {
      throw Object.assign(new Error("no image"), { code: "TUTTI_INVALID_INPUT" });
    },
    "TUTTI_INVALID_INPUT",
    "no image",
  ],
  ["rejects", () => Promise.reject(new Error("later")), "TUTTI_INTERNAL", "later"],
  ["returns nothing", () => undefined, "TUTTI_INTERNAL", "returned undefined where tensors by name are due"],
  ["returns no tensor", () => ({}), "TUTTI_INTERNAL", "returned no tensor"],
  [
    "has an unknown type",
    () => ({ x: { type: "BYTES", dims: [1], data: ["a"] } }),
    "TUTTI_INTERNAL",
    "no element type that is served",
  ],
  ["has data of another type", () => ({ x: { type: "FP32", dims: [1], data: [1] } }), "TUTTI_INTERNAL", "Float32Array"],
  [
    "has too little data",
    () => ({ x: { type: "FP32", dims: [2], data: new Float32Array(1) } }),
    "TUTTI_INTERNAL",
    "4 bytes of data, and FP32[2] takes 8",
  ],
  [
    "has negative dims",
    () => ({ x: { type: "FP32", dims: [-1], data: new Float32Array(1) } }),
    "TUTTI_INTERNAL",
    "no list of sizes",
  ],
])("a function that %s is refused with a text that names it", async (_what, f, code, text) => {
  const outcome = await run(f as StageFunction);
  expect(outcome).toMatchObject({ code });
  expect((outcome as TuttiError).message).toContain(text);
});

test("a call that was given up calls nobody back, and text comes back as it was", async () => {
  let answers = 0;
  let settle = (_: Tensors): void => undefined;
  const held = new Promise<Tensors>((resolve) => (settle = resolve));
  inlineSteps({ "./m.ts#f": () => held }).run(call(), () => answers++)();
  settle(x(1));
  await held.then(() => undefined);
  expect(answers).toBe(0);
  expect(textOf(textTensor("Grüße"))).toBe("Grüße");
});
