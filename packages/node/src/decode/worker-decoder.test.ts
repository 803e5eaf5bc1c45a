import type { DecodeJob, Decoded } from "@tutti/ports/decode";
import { type ModelSpec, TuttiError } from "@tutti/protocol";
import { instant, micros } from "@tutti/units";
import { pack } from "@tutti/wire";
import { afterEach, beforeEach, expect, test } from "vitest";
import { WorkerDecoder } from "./worker-decoder.ts";

const WIDTH = 20_000;
const spec: ModelSpec = {
  name: "wide",
  number: 1,
  version: "1",
  engine: "emulated",
  slo: micros(10_000),
  batchSizeMax: 8,
  patience: 1,
  inputs: [{ name: "x", type: "FP32", dims: ["batch", WIDTH] }],
  outputs: [],
  constants: [],
  axes: {},
  buckets: [{}],
};
const json = (values: readonly unknown[]): Uint8Array =>
  Buffer.from(JSON.stringify({ id: "7", inputs: [{ name: "x", datatype: "FP32", shape: [1, WIDTH], data: values }] }));

const NOW = instant(1_000_000_000);
const SHOP = { spec, app: "shop", deadline: instant(NOW + 10_000_000) };
let decoder: WorkerDecoder;
beforeEach(() => {
  decoder = new WorkerDecoder(() => NOW, 1);
});
afterEach(() => decoder.close());
const decode = (job: DecodeJob): Promise<Decoded | Error> => new Promise((resolve) => decoder.decode(job, resolve));
const codeOf = (outcome: Decoded | Error): string => (outcome instanceof TuttiError ? outcome.code : "ok");

test("a long JSON body is decoded on the worker, to the same row", async () => {
  const values = Array.from({ length: WIDTH }, (_, i) => i / 8);
  const payload = json(values);
  let inSameTurn = true;
  const decoded = new Promise<Decoded | Error>((resolve) =>
    decoder.decode({ ...SHOP, form: "json", payload }, (outcome) => {
      expect(inSameTurn).toBe(false);
      resolve(outcome);
    }),
  );
  inSameTurn = false;
  payload.fill(0); // borrowed: the caller may use it again at once
  expect(await decoded).toMatchObject({ id: "7", bucket: 0 });
  const { row } = (await decoded) as Decoded;
  expect(Array.from(new Float32Array(row.slice().buffer))).toEqual(values);
});

test("what is wrong with a long body comes back as the same typed error", async () => {
  const outcome = await decode({
    ...SHOP,
    form: "json",
    payload: json(Array.from({ length: WIDTH }, () => "x".repeat(10))),
  });
  expect(outcome).toBeInstanceOf(TuttiError);
  expect((outcome as TuttiError).code).toBe("TUTTI_INVALID_INPUT");
});

test("more long bodies than may wait are refused as overload (T7)", async () => {
  const payload = json(Array.from({ length: WIDTH }, () => 1.25));
  const outcomes = await Promise.all(Array.from({ length: 80 }, () => decode({ ...SHOP, form: "json", payload })));
  const refused = outcomes.filter((outcome) => outcome instanceof TuttiError && outcome.code === "TUTTI_OVERLOADED");
  expect(refused).toHaveLength(16);
  expect(outcomes.filter((outcome) => !(outcome instanceof Error))).toHaveLength(64);
});

test("jobs that no thread can be handed fail one by one and take no place from those that come after them", async () => {
  const payload = json(Array.from({ length: WIDTH }, () => 1.25));
  const form = Object as unknown as DecodeJob["form"]; // the result of a lookup by "constructor"
  for (let i = 0; i < 100; i++)
    expect(codeOf(await decode({ ...SHOP, form, payload: new Uint8Array(1_100_000) }))).toBe("TUTTI_INTERNAL");
  expect(codeOf(await decode({ ...SHOP, form: "json", payload }))).toBe("ok");
});

test("an application that sends much makes no other wait for more than one of its bodies", async () => {
  const long = json(Array.from({ length: WIDTH }, (_, i) => i / 7));
  const order: string[] = [];
  const ask = async (app: string): Promise<string> => {
    const outcome = await decode({ ...SHOP, app, form: "json", payload: long });
    order.push(app);
    return codeOf(outcome);
  };
  const flood = Array.from({ length: 100 }, () => ask("flood"));
  expect(await ask("shop")).toBe("ok");
  // 64 may wait, and one of them made room for the other application's.
  const refused = flood.length - 64 + 1;
  expect(order.length - 1 - refused).toBeLessThanOrEqual(2);
  const outcomes = await Promise.all(flood);
  expect(outcomes.filter((code) => code === "TUTTI_OVERLOADED")).toHaveLength(refused);
});

test("what can't be decoded in time is refused before it is begun", async () => {
  const payload = json(Array.from({ length: WIDTH }, () => 1.25));
  expect(codeOf(await decode({ ...SHOP, deadline: NOW, form: "json", payload }))).toBe("TUTTI_DEADLINE_EXCEEDED");
  const soon = instant(NOW + 100); // µs: too little even to read its bytes
  expect(codeOf(await decode({ ...SHOP, deadline: soon, form: "json", payload }))).toBe("TUTTI_DEADLINE_EXCEEDED");
});

test("a long body of more lists than may be is given up before it is parsed", async () => {
  const payload = Buffer.from(`{"inputs":[${Array(1_000_000).fill("[]").join()}]}`);
  const outcome = await decode({ ...SHOP, form: "json", payload });
  expect([codeOf(outcome), (outcome as Error).message]).toEqual([
    "TUTTI_INVALID_INPUT",
    expect.stringContaining("JSON_LISTS_MAX"),
  ]);
});

test("long msgpack of many values is read on the worker, and one of bytes in the same turn, as short ones are", async () => {
  const values = Array.from({ length: WIDTH }, (_, i) => i / 7);
  const bytes = new Uint8Array(Float32Array.from(values).buffer);
  const bodyOf = (data: unknown, rest: object = {}): Uint8Array =>
    pack({ inputs: [{ name: "x", datatype: "FP32", shape: [1, WIDTH], data }], ...rest }).slice();
  const keys = Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`k${i}`, 0]));
  const inSameTurn = (payload: Uint8Array): Promise<readonly [isSame: boolean, code: string]> =>
    new Promise((resolve) => {
      let isSame = true;
      decoder.decode({ ...SHOP, form: "msgpack", payload }, (outcome) => resolve([isSame, codeOf(outcome)]));
      isSame = false;
    });
  expect(await inSameTurn(bodyOf(bytes))).toEqual([true, "ok"]);
  expect(await inSameTurn(bodyOf(values))).toEqual([false, "ok"]);
  expect(await inSameTurn(bodyOf(bytes, keys))).toEqual([false, "TUTTI_INVALID_INPUT"]);
  expect(await inSameTurn(bodyOf([1]))).toEqual([true, "TUTTI_INVALID_INPUT"]);
});

test("a burst of short bodies is decoded whole, beside this thread as soon as another has started", async () => {
  const short = json(Array.from({ length: 2_000 }, (_, i) => i / 8));
  const burst = () => Promise.all(Array.from({ length: 400 }, () => decode({ ...SHOP, form: "json", payload: short })));
  for (let round = 0; round < 2; round++) {
    const codes = (await burst()).map(codeOf);
    expect(new Set(codes)).toEqual(new Set(["TUTTI_INVALID_INPUT"])); // too few values, and never OVERLOADED
    expect(codeOf(await decode({ ...SHOP, form: "json", payload: json(Array(WIDTH).fill(0.5)) }))).toBe("ok");
  }
});
