/**
 * Measures Tutti's own costs around emulated accelerators, whose run time is known exactly.
 *
 *   npm run bench:overhead -- [--json] [--seconds 5] [--only lone,tiny,large,tracing]
 *
 *   - lone: latency of one request at a time under `--patience 0`, less l(1): everything but the run (aim: p50 ≤ 0.4
 *     ms, p99 ≤ 3 ms).
 *   - tiny: requests a second with 4-byte inputs, `--policy eager`, as many under way as it takes (aim: 50,000 on two
 *     cores, generator included).
 *   - large: the same with 150 KB inputs, over NATS and over TCP (aims: 3,500 and 8,000).
 *   - tracing: tiny without a collector and with one at ratio 0, in turn, twice: the cost of always recording refused
 *     and late requests.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import type { ClosedLoopReport } from "../load/closed-loop.ts";
import { RunningSystem } from "../system/running-system.ts";
import { readArguments } from "../arguments.ts";

interface Result {
  readonly name: string;
  readonly what: string;
  readonly value: number;
  readonly unit: string;
  readonly aim: string;
  readonly latencyMs: ClosedLoopReport["latencyMs"];
  readonly refused: ClosedLoopReport["refused"];
  /** Microseconds of processor time per request, by process. */
  readonly cpuUs: Readonly<Record<string, number>>;
}

const USAGE = "npm run bench:overhead -- [--json] [--seconds 5] [--only lone,tiny,large,tracing] [--window 768]\n";
const values = readArguments(USAGE, {
  json: { type: "boolean", default: false },
  seconds: { type: "string", default: "5" },
  only: { type: "string", default: "lone,tiny,large" },
  window: { type: "string", default: "768" },
});

const folder = mkdtempSync(join(tmpdir(), "tutti-overhead-"));
const LARGE_FLOATS = 37_632; // 150,528 bytes: uint8[3, 224, 224]
try {
  const only = new Set(values.only.split(","));
  const results: Result[] = [];
  if (only.has("lone")) results.push(await lone());
  if (only.has("tiny")) results.push(await tiny());
  if (only.has("tracing")) results.push(...(await tracing()));
  if (only.has("large")) results.push(await large("nats"), await large("tcp"));
  process.stdout.write(values.json ? `${JSON.stringify({ cores: cpus().length, results })}\n` : render(results));
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function lone(): Promise<Result> {
  const runMs = 2;
  const model = `{ name: lone, sloMs: 1000, batchMax: 1, latencyMs: [${runMs}] }`;
  return measure(
    model,
    ["--gpus", "1", "--patience", "0"],
    ["--model", "lone", "--window", "1", "--pause", "3ms", "--slo", "1s"],
    (report) => ({
      name: "lone",
      what: "latency of a lone request, less its run (p50; p99 beside it)",
      value: Number((report.latencyMs.p50 - runMs).toFixed(3)),
      unit: `ms (p99 ${(report.latencyMs.p99 - runMs).toFixed(3)})`,
      aim: "p50 ≤ 0.4, p99 ≤ 3",
    }),
  );
}

/** Measures in one run, since two runs on one machine differ by more than this costs. */
async function tracing(): Promise<Result[]> {
  const collector = createServer((request, response) => request.resume().on("end", () => response.end("{}")));
  await new Promise<void>((resolve) => collector.listen(0, "127.0.0.1", resolve));
  const { port } = collector.address() as AddressInfo;
  process.env["TUTTI_TRACE_RATIO"] = "0";
  const results: Result[] = [];
  try {
    for (const round of [1, 2]) {
      results.push({ ...(await tiny()), name: `tiny, no collector, ${round}` });
      results.push({ ...(await tiny("--otlp", `http://127.0.0.1:${port}`)), name: `tiny, ratio 0, ${round}` });
    }
  } finally {
    delete process.env["TUTTI_TRACE_RATIO"];
    collector.close();
    collector.closeAllConnections();
  }
  return results;
}

async function tiny(...more: readonly string[]): Promise<Result> {
  const model = "{ name: tiny, sloMs: 1000, batchMax: 256, alphaMs: 0.001, betaMs: 0.05 }";
  return measure(
    model,
    ["--gpus", "1", "--policy", "eager", ...more],
    ["--model", "tiny", "--window", values.window, "--slo", "1s"],
    (report) => ({
      name: "tiny",
      what: "requests a second with 4-byte inputs, eager",
      value: Math.round(report.rps),
      unit: "r/s",
      aim: "≥ 50,000",
    }),
  );
}

async function large(plane: "nats" | "tcp"): Promise<Result> {
  const model = `{ name: large, sloMs: 1000, batchMax: 32, alphaMs: 0.001, betaMs: 0.05, inputs: [{ name: x, type: FP32, dims: [batch, ${LARGE_FLOATS}] }] }`;
  const load = ["--model", "large", "--window", "64", "--slo", "1s", "--bytes", String(LARGE_FLOATS * 4)];
  return measure(model, ["--gpus", "1", "--policy", "eager", "--data-plane", plane], load, (report) => ({
    name: `large-${plane}`,
    what: `requests a second with 150 KB inputs, data plane over ${plane}`,
    value: Math.round(report.rps),
    unit: "r/s",
    aim: plane === "nats" ? "≥ 3,500" : "≥ 8,000",
  }));
}

type Headline = Pick<Result, "name" | "what" | "value" | "unit" | "aim">;

async function measure(
  model: string,
  up: readonly string[],
  load: readonly string[],
  headline: (report: ClosedLoopReport) => Headline,
): Promise<Result> {
  const profiles = join(folder, "profiles.yaml");
  writeFileSync(profiles, `models: [${model}]\n`);
  const system = await RunningSystem.start(["--emulate", profiles, ...up]);
  try {
    const { report, cpu } = await system.load<ClosedLoopReport>([
      ...load,
      "--seconds",
      values.seconds,
      "--warmup",
      "2",
    ]);
    // The processor time includes the warm-up.
    const requests = report.rps * (Number(values.seconds) + 2);
    const cpuUs = Object.fromEntries(
      cpu.map(({ name, seconds }) => [name, Number(((seconds * 1e6) / requests).toFixed(2))]),
    );
    return { ...headline(report), latencyMs: report.latencyMs, refused: report.refused, cpuUs };
  } finally {
    await system.stop();
  }
}

function render(results: readonly Result[]): string {
  return results
    .map(({ name, what, value, unit, aim, latencyMs, refused, cpuUs }) => {
      const cpu = Object.entries(cpuUs).map(([process, us]) => `${process} ${us}`);
      return `${name}: ${value} ${unit}  — ${what}; aim ${aim}\n  latency ms ${JSON.stringify(latencyMs)}\n  refused ${JSON.stringify(refused)}\n  CPU µs a request: ${cpu.join(", ")}\n`;
    })
    .join("");
}
