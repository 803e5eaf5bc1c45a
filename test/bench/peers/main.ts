/**
 * Tutti beside servers of its kind and beside a bare server, all in one run and in turn (A, B, A, B …), so that a machine's good and bad minutes count for all.
 *
 *   npm run bench:peers -- [--systems bare,tutti,tutti-binary,mosec] [--workloads mlp,lone,cost,idle] [--seconds 4] [--tutti-flags "--layout spread"] [--json]
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { demoModel, demoModelPath } from "@tutti/onnx-tools";
import { readArguments } from "../arguments.ts";
import { CONTESTANTS, type Contestant, type ContestantName, start, usageOf } from "./contestants.ts";
import { searchGoodput } from "./goodput-search.ts";
import type { LoadPlan, LoadReport } from "./load-generator.ts";
import { binaryRequest, jsonRequest } from "./requests.ts";
import { type PeersResult, type Row, tableOf } from "./peers-table.ts";

const USAGE = `npm run bench:peers -- [--systems ${CONTESTANTS.join(",")}] [--workloads mlp,lone,cost,idle] [--seconds 4] [--tutti-flags "…"] [--json]
Goodput (99 % right and within 30 ms) of one small model on one executor, latency at 70 % of it, a lone request, processor time a request, and what idling costs.
`;
const WORKLOADS = ["mlp", "lone", "cost", "idle"];
const SLO_MS = 30;
const LONE_PER_SECOND = 20;
const COST_RATES = [300, 1_500, 3_000];
const RATE_MAX = 16_000;
const READY_MS = 120_000;
/** At this rate and for so long before anything is measured: compilers know nothing yet. */
const WARM = { perSecond: 1_500, seconds: 8 };

const values = readArguments(USAGE, {
  systems: { type: "string", default: CONTESTANTS.join(",") },
  workloads: { type: "string", default: WORKLOADS.join(",") },
  seconds: { type: "string", default: "4" },
  "tutti-flags": { type: "string", default: "" },
  json: { type: "boolean", default: false },
});
const systems = listOf("systems", values.systems, CONTESTANTS);
const workloads = listOf("workloads", values.workloads, WORKLOADS);
const seconds = Number(values.seconds);
const say = (text: string): void => void process.stderr.write(`bench:peers: ${text}\n`);

const folder = mkdtempSync(join(tmpdir(), "tutti-peers-"));
process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130));

const model = join(folder, "mlp.onnx");
writeFileSync(model, readFileSync(demoModelPath(demoModel("mlp"), { cacheDir: folder })));
const row = Array.from({ length: 256 }, (_, i) => Math.round(Math.sin(i) * 1e4) / 1e4);
const requestOf = ({ isBinary, path }: Contestant): string =>
  (isBinary ? binaryRequest : jsonRequest)({ path, input: "x", row, sloMs: SLO_MS }).toString("base64");

const skipped: Record<string, string> = {};
const contestants: Contestant[] = [];
let expected: readonly number[] = [];
for (const name of systems) {
  say(`starts ${name}`);
  const started = await start(name, { model, executors: 1, tuttiFlags: words(values["tutti-flags"]) });
  if (typeof started === "string") {
    skipped[name] = started;
    say(`skips ${name}: ${started}`);
    continue;
  }
  contestants.push(started);
  const answer = await firstAnswer(started);
  if (expected.length === 0) expected = answer;
}
if (contestants.length === 0) {
  say("nothing is left to compare");
  process.exit(1);
}
const rows = new Map<string, Row>(contestants.map(({ name }) => [name, { name }]));
const rowOf = ({ name }: Contestant): Row => rows.get(name)!;

if (workloads.includes("idle")) {
  say("lets all of them idle for 10 s");
  await new Promise((resolve) => setTimeout(resolve, 5_000));
  const before = contestants.map(({ pid }) => usageOf(pid));
  await new Promise((resolve) => setTimeout(resolve, 10_000));
  contestants.forEach((one, i) => {
    const { cpuUs, rssBytes } = usageOf(one.pid);
    rowOf(one).idle = { corePercent: round((cpuUs - before[i]!.cpuUs) / 1e5), rssMb: Math.round(rssBytes / 1e6) };
  });
}
for (const one of contestants) await offer(one, WARM.perSecond, WARM.seconds);
if (workloads.includes("lone"))
  for (const one of contestants) rowOf(one).lone = latencyOf((await offer(one, LONE_PER_SECOND, 3 * seconds)).report);
if (workloads.includes("cost"))
  for (const perSecond of COST_RATES)
    for (const one of contestants) {
      const { report, cpuUs } = await offer(one, perSecond, seconds);
      (rowOf(one).cost ??= []).push({ perSecond, cpuUs: Math.round(cpuUs / report.offered), good: goodShare(report) });
    }
if (workloads.includes("mlp")) {
  const found = await searchGoodput(contestants, RATE_MAX, async (one, perSecond) => {
    const { report } = await offer(one, perSecond, seconds);
    say(
      `${one.name} at ${perSecond}/s: ${(100 * goodShare(report)).toFixed(2)} % good, p99 ${report.p99Ms} ms, generator ${report.lagP99Ms} ms late (p99)`,
    );
    return goodShare(report);
  });
  for (const one of contestants) {
    const goodput = found.get(one) ?? 0;
    const { report } = await offer(one, Math.max(20, 0.7 * goodput), 2 * seconds);
    rowOf(one).mlp = { goodput, at70: latencyOf(report), lagP99Ms: report.lagP99Ms };
  }
}
await Promise.all(contestants.map((one) => one.stop()));
const result: PeersResult = { sloMs: SLO_MS, rows: [...rows.values()], skipped };
process.stdout.write(values.json ? `${JSON.stringify(result)}\n` : tableOf(result));
process.exit(0);

async function offer(
  one: Contestant,
  perSecond: number,
  forSeconds: number,
): Promise<{ readonly report: LoadReport; readonly cpuUs: number }> {
  const plan: LoadPlan = {
    ...{ port: one.port, perSecond, seconds: forSeconds, sloMs: SLO_MS, expected, seed: 7 },
    request: requestOf(one),
  };
  const generator = spawn(process.execPath, [join(import.meta.dirname, "load-generator.ts")], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const kill = (): boolean => generator.kill("SIGKILL");
  process.once("exit", kill);
  const before = usageOf(one.pid).cpuUs;
  generator.stdin.end(JSON.stringify(plan));
  let output = "";
  generator.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
  await once(generator, "close");
  process.off("exit", kill);
  return { report: JSON.parse(output) as LoadReport, cpuUs: usageOf(one.pid).cpuUs - before };
}

/** Asks until there is an answer. @returns its first outputs */
async function firstAnswer({ name, port, path }: Contestant): Promise<readonly number[]> {
  const body = JSON.stringify({ inputs: [{ name: "x", datatype: "FP32", shape: [1, row.length], data: row }] });
  for (const until = performance.now() + READY_MS; performance.now() < until;) {
    try {
      const response = await fetch(`http://127.0.0.1:${port}${path}`, {
        method: "POST",
        body,
        headers: { "tutti-slo": "5s" },
      });
      const { outputs } = (await response.json()) as { outputs?: { data: number[] }[] };
      if (outputs?.[0] !== undefined) return outputs[0].data.slice(0, 4);
    } catch {
      // Not there yet.
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  say(`${name} gives no answer within ${READY_MS / 1_000} s`);
  process.exit(1);
}

function listOf<T extends string>(flag: string, given: string, known: readonly T[]): T[] {
  const list = given.split(",");
  const unknown = list.find((one) => !(known as readonly string[]).includes(one));
  if (unknown === undefined) return list as T[];
  process.stderr.write(`--${flag}: there is no "${unknown}"; there are ${known.join(", ")}\n\n${USAGE}`);
  process.exit(2);
}

function words(flags: string): string[] {
  return flags.split(" ").filter((word) => word !== "");
}
function goodShare({ good, offered }: LoadReport): number {
  return good / offered;
}
function latencyOf({ p50Ms, p99Ms }: LoadReport): { readonly p50Ms: number; readonly p99Ms: number } {
  return { p50Ms, p99Ms };
}
function round(value: number): number {
  return Math.round(value * 100) / 100;
}
export type { ContestantName };
