/**
 * Emulated accelerators under load: batches form, each answer belongs to its request, and late binding leaves the
 * highest ids idle.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "@tutti/client";
import { Prng } from "@tutti/units";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TuttiUp, type UpEvent } from "./tutti-up.ts";

const GPUS = 8;
const RATE = 400;
const SECONDS = 4;
let folder: string;
let profiles: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-e2e-load-"));
  profiles = join(folder, "profiles.yaml");
  await writeFile(profiles, "models: [{ name: resnet50, sloMs: 400, batchMax: 32, alphaMs: 1.053, betaMs: 5.072 }]\n");
});
afterAll(async () => {
  if (folder !== undefined) await rm(folder, { recursive: true });
});

interface Load {
  readonly inTime: number;
  readonly asked: number;
  readonly batchMean: number;
  /** Batches by accelerator. */
  readonly batches: readonly number[];
}

/** Open-loop Poisson arrivals: each request carries its own number, and its answer must be that number. */
async function load(policy: string): Promise<Load> {
  const up = await TuttiUp.start(["--emulate", profiles, "--gpus", String(GPUS), "--policy", policy]);
  const client = await connect({ servers: up.url, app: "load" });
  try {
    const prng = new Prng(1);
    const after = up.events.length;
    const outcomes: Promise<boolean>[] = [];
    const start = performance.now();
    for (let at = 0; at < SECONDS * 1_000; at += prng.nextExponential(RATE / 1_000)) {
      const waitMs = start + at - performance.now();
      if (waitMs > 1) await new Promise((resolve) => setTimeout(resolve, waitMs)); // the arrival process itself
      const own = outcomes.length;
      outcomes.push(
        client.infer("resnet50", { x: [[own]] }).then(
          ({ outputs }) => {
            expect(outputs["y"]?.data[0]).toBe(own);
            return true;
          },
          () => false,
        ),
      );
    }
    const answers = await Promise.all(outcomes);
    const quiet = (event: UpEvent): boolean => event["requests"] === 0 && event["batches"] === 0;
    await up.next("status", quiet, up.events.length);
    const statuses = up.events.slice(after).filter(({ event }) => event === "status");
    return summary(statuses, answers);
  } finally {
    await client.close();
    expect(await up.stop()).toBe(0);
  }
}

function summary(statuses: readonly UpEvent[], answers: readonly boolean[]): Load {
  const total = (name: string): number => statuses.reduce((sum, status) => sum + Number(status[name]), 0);
  const batches = Array.from({ length: GPUS }, (_, gpu) =>
    statuses.reduce((sum, status) => {
      const gpus = status["gpus"] as { gpu: number; batches: number }[];
      return sum + (gpus.find((one) => one.gpu === gpu)?.batches ?? 0);
    }, 0),
  );
  return {
    asked: answers.length,
    inTime: answers.filter(Boolean).length,
    batchMean: total("items") / Math.max(1, total("batches")),
    batches,
  };
}

test("deferred batches are larger than eager ones, on fewer accelerators, and nearly all answers are in time", async () => {
  const deferred = await load("deferred");
  const eager = await load("eager");
  for (const { inTime, asked } of [deferred, eager]) {
    expect(asked).toBeGreaterThan(RATE * SECONDS * 0.8);
    expect(inTime / asked).toBeGreaterThan(0.9);
  }
  expect(deferred.batchMean).toBeGreaterThan(2 * eager.batchMean);
  const used = ({ batches }: Load): number => batches.filter((count) => count > 0).length;
  expect(used(deferred)).toBeLessThan(used(eager));
  // Ties go to the smaller id, so load decreases towards the higher ones.
  expect(deferred.batches[0]).toBeGreaterThan(10 * (deferred.batches[GPUS - 1] ?? 0));
});
