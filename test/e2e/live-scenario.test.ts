/**
 * From a running cluster to a simulation: `tutti scenario --live` and the scenario that `tutti record` writes, each
 * simulated, against what the cluster did meanwhile.
 */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "@tutti/client";
import type { SimulationResult } from "@tutti/simulator";
import { Prng } from "@tutti/units";
import { afterAll, beforeAll, expect, test } from "vitest";
import { delaysIn } from "../bench/agreement/live-figures.ts";
import { TuttiUp, tutti } from "./tutti-up.ts";

/**
 * Batches that start at the last moment hold some 35 requests, by the rate, the SLO and the latencies; delays of a busy
 * machine are short beside the SLO.
 */
const PROFILES = "models: [{ name: wide, sloMs: 400, batchMax: 64, alphaMs: 4, betaMs: 25 }]\n";
const POLICY = ["--policy", "deferred"];
const RATE = 150;
const BEFORE_S = 5;
const SECONDS = 10;
/** Four standard deviations of some 1,500 Poisson arrivals, seen and drawn. */
const RATE_APART = 0.12;
const BATCH_APART = 0.15;
/** Share of late starts, and a control delay in µs, from which on the machine is too busy to be compared. */
const DISTURBED = { lateStarts: 0.25, ctrlUs: 24_000 } as const;

let folder: string;
let up: TuttiUp;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-e2e-scenario-"));
  await writeFile(join(folder, "profiles.yaml"), PROFILES);
  up = await TuttiUp.start(["--emulate", join(folder, "profiles.yaml"), "--gpus", "2", ...POLICY]);
});
afterAll(async () => {
  await up?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true });
});

/** Asks with Poisson arrivals until it is stopped. */
async function ask(signal: AbortSignal): Promise<void> {
  const client = await connect({ servers: up.url, app: "shop" });
  const prng = new Prng(1);
  const start = performance.now();
  const answers: Promise<unknown>[] = [];
  for (let at = 0; !signal.aborted; at += prng.nextExponential(RATE / 1_000)) {
    const waitMs = start + at - performance.now();
    if (waitMs > 1) await new Promise((resolve) => setTimeout(resolve, waitMs)); // the arrival process itself
    answers.push(client.infer("wide", { x: [[1]] }).catch(() => undefined));
  }
  await Promise.all(answers);
  await client.close();
}

const statuses = (from: number): Readonly<Record<string, number>>[] =>
  up.events.slice(from).filter(({ event }) => event === "status") as never[];

/** Resolves with the place in the list of events after so many more statuses, which come every second. */
async function afterStatuses(count: number): Promise<number> {
  const from = up.events.length;
  await up.next("status", () => statuses(from).length >= count, from);
  return up.events.length;
}

async function simulated(path: string): Promise<SimulationResult> {
  const { stdout, stderr, code } = await tutti(["simulate", path, "--json", ...POLICY]);
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout) as SimulationResult;
}

test("what is written of a running cluster does in the simulator what the cluster did, in rate and mean batch", async ({
  skip,
}) => {
  const asking = new AbortController();
  const asked = ask(asking.signal);
  const from = await afterStatuses(BEFORE_S);
  const trace = join(folder, "trace.jsonl");
  const [live, recorded] = await Promise.all([
    up.command("scenario", "--live", "--seconds", String(SECONDS)),
    up.command("record", "--out", trace, "--seconds", String(SECONDS), "--json"),
  ]);
  const during = statuses(from);
  asking.abort();
  await asked;
  const sum = (name: string): number => during.reduce((total, status) => total + status[name]!, 0);
  const did = { rate: sum("requests") / sum("seconds"), batch: sum("items") / sum("batches") };

  expect(live.code, live.stderr).toBe(0);
  // Skip by the delays that the cluster reports, and not by whether the two agree: the latter is what is compared.
  const { lateStarts, reserved } = delaysIn(during as never);
  const isDisturbed = lateStarts > DISTURBED.lateStarts || reserved.ctrl > DISTURBED.ctrlUs;
  const today = join(folder, "today.yaml");
  await writeFile(today, live.stdout);
  const beside = join(folder, "trace.yaml");
  expect(JSON.parse(recorded.stdout)).toMatchObject({ scenario: beside });

  // The recording is over after seconds: no figure may be made of it, and the model alone can be asked about.
  const short = await tutti(["goodput", beside]);
  expect(short).toMatchObject({ code: 1, stderr: expect.stringContaining("too little to judge 1 % bad by") as string });
  const wide = ["goodput", "--model", "wide", "--slo", "300ms", "--rate", "450", "--duration", "5"];
  const fewest = await up.command(...wide, "--min-gpus");
  expect(fewest.stdout, fewest.stderr).toMatch(
    /^[23] accelerators are enough .* and leave \d+ % headroom; [34] leave \d+ %/m,
  );
  const unknown = await up.command("goodput", "--model", "narrow");
  expect(unknown).toMatchObject({ code: 1, stderr: expect.stringContaining('"narrow" has no profile here') as string });

  for (const path of [today, beside]) {
    const text = await readFile(path, "utf8");
    const { offeredRps, batchSize } = await simulated(path);
    expect(Math.abs(offeredRps / did.rate - 1), `${text}\n${offeredRps} of ${did.rate} r/s`).toBeLessThan(RATE_APART);
    if (isDisturbed) skip("the machine is too busy: delays outgrew what may be set aside");
    expect(Math.abs(batchSize.mean / did.batch - 1), `${text}\n${batchSize.mean} of ${did.batch}`).toBeLessThan(
      BATCH_APART,
    );
  }
}, 180_000);
