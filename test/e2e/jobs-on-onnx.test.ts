/** Background jobs on executors that run real ONNX models, beside requests for one of them. */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type InferResult, type SubmittedJob, type Tutti, connect } from "@tutti/client";
import { generateAddOne, generateMlp } from "@tutti/onnx-tools";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TuttiUp } from "./tutti-up.ts";

const JOBS = 60;
const WIDTH = 256;
/** An SLO that a machine keeps on which other processes run. */
const SLO_MS = 5_000;
const REQUEST_EVERY_MS = 5;
let folder: string;
let up: TuttiUp;
let client: Tutti;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-e2e-onnx-jobs-"));
  for (const [name, bytes] of [
    ["add-one", generateAddOne()],
    ["mlp", generateMlp({ widths: [WIDTH, 512, 10] })],
  ] as const) {
    await mkdir(join(folder, name, "1"), { recursive: true });
    await writeFile(join(folder, name, "1/model.onnx"), bytes);
    await writeFile(join(folder, name, "config.yaml"), `{ slo: ${SLO_MS}ms, max_batch_size: 8, patience: 0 }`);
  }
  up = await TuttiUp.start(["--no-demo", "--models", folder, "--executors", "2"]);
  client = await connect({ servers: up.url, app: "e2e" });
});
afterAll(async () => {
  await client?.close();
  await up?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true });
});

const values = ({ outputs }: InferResult): number[] => Array.from(outputs["y"]!.data as Float32Array);
/** Inputs of which no two are alike. */
const four = (i: number): Float32Array => Float32Array.from({ length: 4 }, (_, k) => 10 * i + k);
const wave = (i: number): Float32Array => Float32Array.from({ length: WIDTH }, (_, k) => Math.sin(i + 1 + k));

test(`${2 * JOBS} jobs of two models have their own results, and every request beside them is in time`, async () => {
  const alone = await Promise.all(
    Array.from({ length: JOBS }, (_, i) => client.infer("mlp", { x: wave(i) }, { slo: "60s" })),
  );
  const requests: Promise<number>[] = [];
  let asked = 0;
  /** @returns how long it took, in ms */
  const ask = async (): Promise<number> => {
    const [input, at] = [asked++ % JOBS, performance.now()];
    const result = await client.infer("mlp", { x: wave(input) }, { slo: `${SLO_MS}ms` });
    expect(values(result)).toEqual(near(values(alone[input]!)));
    return performance.now() - at;
  };
  const asking = setInterval(() => requests.push(ask()), REQUEST_EVERY_MS);
  try {
    const submit = (model: string, input: (i: number) => Float32Array): Promise<SubmittedJob[]> =>
      Promise.all(
        Array.from({ length: JOBS }, (_, i) => client.submit(model, { x: input(i) }, { id: `${model}-${i}` })),
      );
    const [sums, waves] = await Promise.all([submit("add-one", four), submit("mlp", wave)]);
    const results = (jobs: readonly SubmittedJob[]) => Promise.all(jobs.map((job) => job.result()));
    for (const [i, result] of (await results(sums)).entries())
      expect(values(result)).toEqual(Array.from(four(i), (x) => x + 1));
    // A model's sums are rounded in another order in another batch.
    for (const [i, result] of (await results(waves)).entries()) expect(values(result)).toEqual(near(values(alone[i]!)));
  } finally {
    clearInterval(asking);
  }
  const times = await Promise.all(requests);
  expect(times.length).toBeGreaterThan(10);
  expect(Math.max(...times)).toBeLessThan(SLO_MS);
  const { stdout } = await up.command("jobs", "--json");
  expect(JSON.parse(stdout)).toMatchObject({ models: [] });
  process.stdout.write(`${2 * JOBS} jobs beside ${times.length} requests\n`);
}, 240_000);

const near = (wanted: readonly number[]): number[] =>
  wanted.map((value) => expect.closeTo(value, 4) as unknown as number);
