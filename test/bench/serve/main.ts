/**
 * Serves an emulated model with `tutti up` and offers it open-loop Poisson load, once per policy. Beside each result
 * stands the prediction of the scheduler's own arithmetic.
 *
 *   npm run bench:serve -- [--rate 2000] [--seconds 20] [--gpus 8] [--warmup 10s] [--policies adaptive,deferred,eager]
 *   [--json]
 *
 * The model is ResNet50 of Symphony's Table 2: l(b) = 1.053·b + 5.072 ms, SLO 25 ms.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Micros, micros, millis } from "@tutti/units";
import type { LoadReport } from "../load/open-loop.ts";
import { type Delay, RunningSystem, type StatusEvent } from "../system/running-system.ts";
import { type Prediction, predict } from "./prediction.ts";
import type { PolicyName } from "./serve-options.ts";
import { readArguments } from "../arguments.ts";

const RESNET50 = { alphaUs: 1_053, betaUs: 5_072, batchSizeMax: 64, slo: millis(25) };
const PROFILES = "models: [{ name: resnet50, sloMs: 25, batchMax: 64, alphaMs: 1.053, betaMs: 5.072 }]\n";
/** Least busy share of an accelerator that counts as used: below, it ran housekeeping only. */
const USED = 0.01;

interface Measured {
  readonly policy: PolicyName;
  readonly load: LoadReport;
  readonly batchMean: number;
  readonly busyShare: readonly number[];
  readonly gpusUsed: number;
  readonly cpuSeconds: Readonly<Record<string, number>>;
  /** Mean delays that the scheduler set aside over the run; the prediction uses the same. */
  readonly delaysUs: Readonly<Record<Delay, number>>;
  readonly predicted: Prediction;
}

const USAGE =
  "npm run bench:serve -- [--rate 2000] [--seconds 20] [--gpus 8] [--warmup 10s] [--policies adaptive,deferred,eager] [--json]\n";
const values = readArguments(USAGE, {
  rate: { type: "string", default: "2000" },
  seconds: { type: "string", default: "20" },
  gpus: { type: "string", default: "8" },
  warmup: { type: "string", default: "10s" },
  policies: { type: "string", default: "adaptive,deferred,eager" },
  json: { type: "boolean", default: false },
});

const folder = mkdtempSync(join(tmpdir(), "tutti-serve-"));
try {
  const results: Measured[] = [];
  for (const policy of values.policies.split(",") as PolicyName[]) results.push(await measure(policy));
  process.stdout.write(values.json ? `${JSON.stringify(results)}\n` : render(results));
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function measure(policy: PolicyName): Promise<Measured> {
  const profiles = join(folder, "profiles.yaml");
  writeFileSync(profiles, PROFILES);
  const gpus = Number(values.gpus);
  const system = await RunningSystem.start([
    ...[
      "--emulate",
      profiles,
      "--gpus",
      values.gpus,
      "--policy",
      policy,
      "--prefer",
      "accelerators",
      "--warmup",
      values.warmup,
    ],
  ]);
  try {
    const args = [
      "--model",
      "resnet50",
      "--rate",
      values.rate,
      "--seconds",
      values.seconds,
      "--slo",
      "25ms",
      "--warmup",
      "3",
    ];
    const { report, during, cpu } = await system.load<LoadReport>(args);
    const steady = during.slice(3, 3 + Number(values.seconds));
    const busyShare = meanBusy(steady, gpus);
    const delays = meanDelays(steady);
    const predicted = predict({
      ...RESNET50,
      policy,
      gpus,
      rate: Number(values.rate),
      seconds: Number(values.seconds),
      seed: 7,
      ...delays,
      guard: micros(delays.guard + delays.reserve),
    });
    return {
      policy,
      load: report,
      delaysUs: delays,
      batchMean: sum(steady, "items") / Math.max(1, sum(steady, "batches")),
      busyShare,
      gpusUsed: busyShare.filter((share) => share >= USED).length,
      cpuSeconds: Object.fromEntries(cpu.map(({ name, seconds }) => [name, Number(seconds.toFixed(2))])),
      predicted,
    };
  } finally {
    await system.stop();
  }
}

function meanBusy(statuses: readonly StatusEvent[], gpus: number): number[] {
  return Array.from({ length: gpus }, (_, gpu) => {
    const shares = statuses.map((status) => status.gpus.find((one) => one.gpu === gpu)?.busy ?? 0);
    return Number((shares.reduce((a, b) => a + b, 0) / Math.max(1, shares.length)).toFixed(3));
  });
}

function meanDelays(statuses: readonly StatusEvent[]): Record<Delay, Micros> {
  const all = statuses.flatMap(({ threads }) => threads.map(({ delaysUs }) => delaysUs));
  const mean = (delay: Delay): Micros =>
    micros(Math.round(all.reduce((total, delays) => total + delays[delay], 0) / Math.max(1, all.length)));
  return {
    ctrl: mean("ctrl"),
    perItem: mean("perItem"),
    respond: mean("respond"),
    guard: mean("guard"),
    reserve: mean("reserve"),
  };
}

function sum(statuses: readonly StatusEvent[], name: "items" | "batches"): number {
  return statuses.reduce((total, status) => total + status[name], 0);
}

function render(results: readonly Measured[]): string {
  const lines = results.flatMap((result) => [
    `${result.policy}: ${result.load.offeredRps.toFixed(0)} r/s offered, ${(100 * result.load.inTimeShare).toFixed(2)} % in time (predicted ${(100 * result.predicted.inTimeShare).toFixed(2)} %)`,
    `  set aside    ${Object.entries(result.delaysUs)
      .map(([name, us]) => `${name} ${us} µs`)
      .join(", ")}`,
    `  batch size   ${result.batchMean.toFixed(2)} on average (predicted ${result.predicted.batchMean.toFixed(2)})`,
    `  busy share   ${result.busyShare.join("  ")}`,
    `  predicted    ${result.predicted.busyShare.join("  ")}`,
    `  accelerators ${result.gpusUsed} used (predicted ${result.predicted.busyShare.filter((share) => share >= USED).length})`,
    `  latency      p50 ${result.load.latencyMs.p50} ms, p99 ${result.load.latencyMs.p99} ms; refused ${JSON.stringify(result.load.refused)}, late ${result.load.late}, lost ${result.load.lost}`,
    `  CPU seconds  ${JSON.stringify(result.cpuSeconds)}`,
  ]);
  return `${lines.join("\n")}\n`;
}
