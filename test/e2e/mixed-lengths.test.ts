/**
 * Lines of text and token sequences of different lengths, from several applications at once. Each gets the same result
 * from a mixed batch as in isolation.
 */
import { mkdir, mkdtemp, rm, writeFile, copyFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type NatsConnection, connectNats, readCredentials } from "@tutti/bus-nats";
import { type InferResult, type Tutti, connect, tensor } from "@tutti/client";
import { demoModel, demoModelPath, generateTokenLoop } from "@tutti/onnx-tools";
import { BatchFinished, subjectsOf } from "@tutti/protocol";
import { Prng, modelNumberOf } from "@tutti/units";
import { FrameReader } from "@tutti/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TuttiUp } from "./tutti-up.ts";

const TEXT = `
slo: 2s
max_batch_size: 4
input: [{ name: x, dims: [batch, 3, 48, W] }]
output: [{ name: softmax_11.tmp_0, dims: [batch, T, 6625] }]
axes: { W: { mode: pad, max: 320, multiple: 32, typical: 96, mixed: false } }
cut: { T: { axis: W, divide: 8, add: 3 } }
`;
const LOOP = `
slo: 2s
max_batch_size: 8
axes: { T: { mode: pad, max: 64, multiple: 8, typical: 16, lengths: lengths } }
`;

let folder: string;
let up: TuttiUp;
let client: Tutti;
let tap: NatsConnection;
/** Sizes of the batches that ran, by model. */
const batches = new Map<number, number[]>();

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-e2e-models-"));
  for (const [name, config] of Object.entries({ text: TEXT, loop: LOOP })) {
    await mkdir(join(folder, name, "1"), { recursive: true });
    await writeFile(join(folder, name, "config.yaml"), config);
  }
  const path = demoModelPath(demoModel("ocr-rec"), { cacheDir: folder });
  await copyFile(path, join(folder, "text/1/model.onnx"));
  await writeFile(join(folder, "loop/1/model.onnx"), generateTokenLoop({ width: 32 }));
  // With distributions the scheduler may decide to run different lengths apart; here they must share runs.
  const how = ["--executors", "1", "--patience", "0.2", "--latency", "means"];
  up = await TuttiUp.start(["--no-demo", "--models", folder, ...how]);
  // A busy machine may refuse some.
  client = await connect({ servers: up.url, app: "e2e", retries: 3 });
  const credentials = readCredentials(join(up.runDirectory, new URL(up.url).port, "creds/profiler.nk"));
  tap = await connectNats({ servers: up.url, name: "tap", credentials });
  const reader = new FrameReader().on(BatchFinished, ({ thread, batchSize }) => {
    const model = modelNumberOf(thread);
    batches.set(model, [...(batches.get(model) ?? []), batchSize]);
  });
  tap.control.subscribe(subjectsOf("main").role("profiler"), ({ payload }) => void reader.read(payload));
});
afterAll(async () => {
  await tap?.close();
  await client?.close();
  await up?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true });
});

type Ask = (slo: string) => Promise<InferResult>;

/** Asks all at once, with time to gather, and then one by one. */
async function compare(asks: readonly Ask[]): Promise<number> {
  const together = await Promise.all(asks.map((ask) => ask("1500ms")));
  let worst = 0;
  for (const [i, ask] of asks.entries()) {
    const alone = await ask("1s");
    expect(Object.keys(together[i]!.outputs)).toEqual(Object.keys(alone.outputs));
    for (const [name, own] of Object.entries(together[i]!.outputs)) {
      const expected = alone.outputs[name]!;
      expect([...own.dims]).toEqual([...expected.dims]);
      const [a, b] = [own.data as Float32Array, expected.data as Float32Array];
      for (let k = 0; k < a.length; k++) worst = Math.max(worst, Math.abs(a[k]! - b[k]!));
    }
  }
  return worst;
}

const random = (count: number, seed: number): Float32Array => {
  const prng = new Prng(seed);
  return Float32Array.from({ length: count }, () => prng.nextFloat() * 2 - 1);
};

/**
 * Sizes of the batches of these requests, together and then one by one. Executors report to the profiler once a second,
 * so reports of earlier runs may come meanwhile.
 */
async function batchesOf(asks: readonly Ask[]): Promise<readonly number[]> {
  batches.clear();
  expect(await compare(asks)).toBeLessThan(1e-4);
  const all = (sizes: readonly number[]): boolean => sizes.reduce((sum, size) => sum + size, 0) >= 2 * asks.length;
  const { promise, resolve } = Promise.withResolvers<readonly number[]>();
  const timer = setInterval(() => {
    const known = [...batches.values()].find(all);
    if (known !== undefined) resolve(known);
  }, 20);
  return promise.finally(() => clearInterval(timer));
}

/**
 * Asks until requests have shared a run. On a busy machine they may arrive so far apart that each finds the executor
 * idle.
 */
async function largestShared(asks: readonly Ask[]): Promise<number> {
  // Runs of cold code are not reported.
  for (batches.clear(); batches.size === 0;) await asks[0]!("2s");
  let largest = 1;
  for (let tries = 0; tries < 10 && largest === 1; tries++) largest = Math.max(...(await batchesOf(asks)));
  return largest;
}

test("PP-OCR rec: three applications' lines of unlike widths come out of shared batches as they come out alone", async () => {
  const widths = [40, 96, 150, 64, 200, 96, 33, 130, 70];
  const asks = widths.map(
    (width, i): Ask =>
      (slo) =>
        client.infer(
          "text",
          { x: tensor(random(3 * 48 * width, width), [1, 3, 48, width]) },
          { slo, app: ["receipts", "signs", "plates"][i % 3]! },
        ),
  );
  expect(await largestShared(asks)).toBeGreaterThan(1);
  const { outputs } = await asks[4]!("2s");
  expect(outputs["softmax_11.tmp_0"]?.dims).toEqual([1, 25, 6625]);
}, 60_000);

test("a Loop over tokens: sequences of unlike lengths share runs, with the lengths made by the executor", async () => {
  const asks = [3, 64, 17, 1, 40, 9, 33].map(
    (length, i): Ask =>
      (slo) =>
        client.infer(
          "loop",
          { x: tensor(random(8 * length, length), [1, length, 8]) },
          { slo, app: i % 2 === 0 ? "chat" : "search" },
        ),
  );
  expect(await largestShared(asks)).toBeGreaterThan(1);
}, 60_000);

test("a sequence beyond the longest is refused, naming it, and a size hint that is none too", async () => {
  const long = client.infer("loop", { x: tensor(random(8 * 65, 1), [1, 65, 8]) });
  await expect(long).rejects.toMatchObject({ code: "TUTTI_INVALID_INPUT", message: "T=65: loop takes at most 64" });
  const hinted = await up.command("infer", "loop", "--size", "12");
  expect([hinted.code, hinted.stderr]).toEqual([0, ""]);
  const wrong = await up.command("infer", "loop", "--size", "-3");
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining("--size -3")]);
}, 60_000);
