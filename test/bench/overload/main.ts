/**
 * Floods a running system. It measures how much the system still serves, how soon it refuses, how its memory grows, and
 * how fast it recovers.
 *
 *   npm run bench:overload -- [--seconds 60] [--times 10] [--gpus 2] [--goodput r/s] [--pause ms] [--json]
 *
 * The model is emulated: l(b) = 1.6·b + 10 ms, SLO 100 ms; two accelerators carry about 1,000 r/s. Its goodput is
 * searched first, unless it is given. Then come 3 s of half the goodput, the flood, and 5 s of half the goodput. A
 * second application sends a tenth of the goodput the whole time. The generator shares the machine: `sendLagMs` says
 * whether it kept its pace. With `pause` all of the system's processes are stopped for so long, 0.2 s after the flood
 * has begun.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Micros, millis } from "@tutti/units";
import { RunningSystem } from "../system/running-system.ts";
import { type FloodPart, type FloodPlan } from "./flood.ts";
import { type Flooded, runFlood, slopePerMinute } from "./flooded-system.ts";
import { readArguments } from "../arguments.ts";

const HELP = "npm run bench:overload -- [--seconds 60] [--times 10] [--gpus 2] [--goodput r/s] [--pause ms] [--json]\n";
const SLO: Micros = millis(100);
const PROFILES = "models: [{ name: wide, sloMs: 100, batchMax: 32, alphaMs: 1.6, betaMs: 10 }]\n";
/** Rates that the goodput search tries, as shares of 1,000 r/s for two accelerators. */
const STEPS = [1.05, 1, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5];
const SERVED_SHARE = 0.99;
const STEADY = 0.1;

const values = readArguments(HELP, {
  seconds: { type: "string", default: "60" },
  times: { type: "string", default: "10" },
  gpus: { type: "string", default: "2" },
  goodput: { type: "string" },
  pause: { type: "string", default: "0" },
  json: { type: "boolean", default: false },
});

if (Number(values.pause) >= 1_000 * Number(values.seconds)) {
  process.stderr.write(
    `bench:overload: a pause of ${values.pause} ms must be shorter than the flood, --seconds ${values.seconds}\n`,
  );
  process.exit(2);
}

export interface OverloadResult {
  readonly goodput: number;
  /** How long the whole system was stopped during the flood. */
  readonly pauseMs: number;
  readonly offered: number;
  readonly served: number;
  /** Share of the goodput that the flooded system still serves. */
  readonly kept: number;
  /** Served share of the application that never sent more than a tenth of the goodput. */
  readonly steadyServedShare: number;
  readonly refused: Readonly<Record<string, number>>;
  readonly refusalMs: FloodPart["refusalMs"];
  readonly laterRefusalMs: FloodPart["refusalMs"];
  readonly retryAfterMs: FloodPart["retryAfterMs"];
  readonly lost: number;
  readonly late: number;
  readonly repeated: number;
  readonly recoveryMs: number;
  readonly memoryMb: { readonly first: number; readonly last: number; readonly slopePerMinute: number };
  readonly sendLagMs: Flooded["sendLagMs"];
  readonly cpuSeconds: Readonly<Record<string, number>>;
}

const folder = mkdtempSync(join(tmpdir(), "tutti-overload-"));
try {
  const result = await measure();
  process.stdout.write(values.json ? `${JSON.stringify(result)}\n` : render(result));
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function measure(): Promise<OverloadResult> {
  const profiles = join(folder, "profiles.yaml");
  writeFileSync(profiles, PROFILES);
  const system = await RunningSystem.start(["--emulate", profiles, "--gpus", values.gpus, "--warmup", "3s"]);
  try {
    const goodput = values.goodput === undefined ? await search(system) : Number(values.goodput);
    const steady = { app: "steady", rates: [STEADY, STEADY, STEADY].map((part) => part * goodput) };
    const rates = [0.5 - STEADY, Number(values.times) - STEADY, 0.5 - STEADY].map((part) => part * goodput);
    const cpuBefore = system.cpuTimes();
    const flooded = await runFlood(
      system.url,
      plan([3, Number(values.seconds), 5], [{ app: "wild", rates }, steady]),
      () => system.pids(),
      Number(values.pause),
    );
    const cpu = [...system.cpuTimes()].map(([name, s]) => [name, Number((s - (cpuBefore.get(name) ?? 0)).toFixed(2))]);
    return summary(goodput, flooded, Object.fromEntries(cpu) as Record<string, number>);
  } finally {
    await system.stop();
  }
}

async function search(system: RunningSystem): Promise<number> {
  for (const step of STEPS) {
    const rate = step * 500 * Number(values.gpus);
    const { parts } = await runFlood(system.url, plan([1, 5], [{ app: "search", rates: [rate / 2, rate] }]), () => []);
    const { sent, inTime } = parts[1]!;
    if (inTime >= SERVED_SHARE * sent) return rate;
    process.stderr.write(`overload: ${rate.toFixed(0)} r/s: ${((100 * inTime) / sent).toFixed(1)} % in time\n`);
  }
  throw new Error("not even half of what the accelerators carry is served: is the machine busy?");
}

function plan(phases: readonly number[], streams: FloodPlan["streams"]): FloodPlan {
  return { model: "wide", slo: SLO, phases, streams, seed: 1 };
}

function summary(goodput: number, flooded: Flooded, cpuSeconds: Record<string, number>): OverloadResult {
  const flood = flooded.parts.filter(({ phase }) => phase === 1);
  const [wild, steady] = [flood[0]!, flood[1]!];
  const sum = (field: "sent" | "inTime" | "late" | "lost", parts = flood): number =>
    parts.reduce((total, part) => total + part[field], 0);
  const served = sum("inTime") / wild.seconds;
  const { memoryMb, recoveryMs, repeated, sendLagMs } = flooded;
  return {
    goodput,
    pauseMs: Number(values.pause),
    offered: sum("sent") / wild.seconds,
    served,
    kept: served / goodput,
    steadyServedShare: steady.inTime / steady.sent,
    refused: wild.refused,
    refusalMs: wild.refusalMs,
    laterRefusalMs: wild.laterRefusalMs,
    retryAfterMs: wild.retryAfterMs,
    lost: sum("lost", [...flooded.parts]),
    late: sum("late", [...flooded.parts]),
    repeated,
    recoveryMs,
    memoryMb: { first: memoryMb[0] ?? NaN, last: memoryMb.at(-1) ?? NaN, slopePerMinute: slopePerMinute(memoryMb) },
    sendLagMs,
    cpuSeconds,
  };
}

function render(result: OverloadResult): string {
  const {
    goodput,
    offered,
    served,
    kept,
    steadyServedShare,
    refusalMs,
    laterRefusalMs,
    retryAfterMs,
    memoryMb,
    sendLagMs,
  } = result;
  return [
    `goodput ${goodput.toFixed(0)} r/s; offered ${offered.toFixed(0)} r/s, served ${served.toFixed(0)} r/s: ${kept.toFixed(3)} of the goodput`,
    `the application that behaves: ${(100 * steadyServedShare).toFixed(1)} % served in time`,
    `refusals    ${JSON.stringify(result.refused)}, p50 ${refusalMs.p50} ms, p99 ${refusalMs.p99} ms, max ${refusalMs.max} ms`,
    `  from the second second on  p50 ${laterRefusalMs.p50} ms, p99 ${laterRefusalMs.p99} ms, max ${laterRefusalMs.max} ms`,
    `retry after ${retryAfterMs.least} to ${retryAfterMs.most} ms, median ${retryAfterMs.median} ms`,
    `lost ${result.lost}, late ${result.late}, answered twice ${result.repeated}; recovered after ${result.recoveryMs} ms`,
    `memory      ${memoryMb.first.toFixed(0)} MB to ${memoryMb.last.toFixed(0)} MB, ${memoryMb.slopePerMinute.toFixed(1)} MB a minute`,
    `generator   behind by p50 ${sendLagMs.p50} ms, p99 ${sendLagMs.p99} ms; CPU seconds ${JSON.stringify(result.cpuSeconds)}`,
    "",
  ].join("\n");
}
