/**
 * Compares Tutti with servers of its kind and with a bare server. All take turns in one run (A, B, A, B …), so that a
 * machine's good and bad minutes count for all.
 *
 *   npm run bench:peers -- [--systems bare,tutti,mosec] [--workloads mlp,table2] [--seconds 4] [--out folder] [--json]
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { readArguments } from "../arguments.ts";
import { familyOf } from "./contestants.ts";
import { type Run, type Stage, unsupported } from "./lineup.ts";
import { measure } from "./measures.ts";
import { pictureOf } from "./peers-chart.ts";
import { markdownOf, tableOf } from "./peers-table.ts";
import type { PeersResult, WorkloadResult } from "./results.ts";
import { type ModelName, expectedOf, rowsOf, servedModel } from "./served-models.ts";
import type { Asked } from "./requests.ts";
import { Trials } from "./trials.ts";
import { SYSTEM_NAMES, type SystemName, WORKLOAD_NAMES, type Workload, workloadOf } from "./workloads.ts";

const USAGE = `npm run bench:peers -- [options]
What Tutti and servers of its kind carry, how soon they answer, and what they cost: test/bench/peers/README.md.

  --workloads <names>    of ${WORKLOAD_NAMES.join(",")}; all by default
  --systems <names>      of ${SYSTEM_NAMES.join(",")}; by default each workload's own
  --seconds <n>          of a trial (4)
  --tutti-flags "<…>"    further flags of tutti up
  --out <folder>         write results.json, results.md and results.svg there; workloads that it holds
                         already and that are not measured now stay
  --json                 print JSON instead of tables
  --help                 print this
`;

const values = readArguments(USAGE, {
  systems: { type: "string" },
  workloads: { type: "string", default: WORKLOAD_NAMES.join(",") },
  seconds: { type: "string", default: "4" },
  "tutti-flags": { type: "string", default: "" },
  out: { type: "string" },
  json: { type: "boolean", default: false },
});
const wanted = values.systems === undefined ? undefined : listOf("systems", values.systems, SYSTEM_NAMES);
const workloads = listOf("workloads", values.workloads, WORKLOAD_NAMES).map(workloadOf);
const seconds = Number(values.seconds);
if (!(seconds > 0)) refuse(`--seconds takes a number above 0, not "${values.seconds}"`);
const begin = performance.now();
const say = (text: string): void =>
  void process.stderr.write(`bench:peers ${clockOf(performance.now() - begin)} ${text}\n`);

const folder = mkdtempSync(join(tmpdir(), "peers-"));
process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130));

const run: Run = { folder, seconds, say, tuttiFlags: words(values["tutti-flags"]), known: new Map() };
const asked = new Map<ModelName, Asked>();
let result: PeersResult = {
  ...{ cores: availableParallelism(), node: process.version, seconds, tookSeconds: 0 },
  workloads: earlierOf(values.out),
};
for (const workload of workloads) {
  result = withWorkload(result, await runWorkload(workload), (performance.now() - begin) / 1_000);
  if (values.out !== undefined) write(result, values.out); // Later failures lose no finished result.
}
process.stdout.write(values.json ? `${JSON.stringify(result)}\n` : tableOf(result), () => process.exit(0));

/** Results of an earlier run in the same folder: those of workloads that are not measured anew stay. */
function earlierOf(out: string | undefined): readonly WorkloadResult[] {
  const file = out === undefined ? undefined : join(out, "results.json");
  if (file === undefined || !existsSync(file)) return [];
  return (JSON.parse(readFileSync(file, "utf8")) as PeersResult).workloads;
}

function withWorkload(before: PeersResult, one: WorkloadResult, tookSeconds: number): PeersResult {
  const all = [...before.workloads.filter(({ workload }) => workload !== one.workload), one];
  const place = ({ workload }: WorkloadResult): number => WORKLOAD_NAMES.indexOf(workload);
  return {
    ...before,
    tookSeconds: Math.round(tookSeconds),
    workloads: all.toSorted((a, b) => place(a) - place(b)),
  };
}

function write(whole: PeersResult, out: string): void {
  mkdirSync(out, { recursive: true });
  writeFileSync(join(out, "results.json"), `${JSON.stringify(whole, null, 2)}\n`);
  writeFileSync(join(out, "results.md"), markdownOf(whole));
  writeFileSync(join(out, "results.svg"), pictureOf(whole));
}

async function runWorkload(workload: Workload): Promise<WorkloadResult> {
  say(`workload ${workload.name}`);
  const trials = new Trials({ sloMs: workload.sloMs, say });
  const close = (): void => trials.close();
  process.once("exit", close);
  const skipped: Record<string, string> = {};
  const systems = (wanted ?? workload.systems).filter((name) => {
    const why = unsupported(name, workload);
    if (why !== undefined) skipped[name] = why;
    return why === undefined;
  });
  const stage: Stage = { ...run, workload, asked: await askedOf(workload.models), trials, skipped, tried: [] };
  try {
    const rows = await measure(stage, withoutRepeats(workload, systems));
    for (const row of rows) row.bottlenecks = trials.bottlenecks.get(row.system) ?? 0;
    const { name, title, sloMs } = workload;
    return { workload: name, title, sloMs, rows, skipped, tried: stage.tried };
  } finally {
    trials.close();
    process.off("exit", close);
  }
}

/** The systems without repeats: while idle, the ways into one system cost the same. */
function withoutRepeats({ measure }: Workload, systems: readonly SystemName[]): SystemName[] {
  if (measure !== "idle") return [...systems];
  return [...Map.groupBy(systems, familyOf).values()].map(([first]) => first!);
}

async function askedOf(names: readonly ModelName[]): Promise<Asked[]> {
  for (const name of names) {
    if (asked.has(name)) continue;
    const model = servedModel(name, { folder });
    const rows = rowsOf(model);
    asked.set(name, { model, rows, expected: await expectedOf(model, rows) });
  }
  return names.map((name) => asked.get(name)!);
}

function listOf<T extends string>(flag: string, given: string, known: readonly T[]): T[] {
  const list = [...new Set(given.split(","))];
  const unknown = list.find((one) => !(known as readonly string[]).includes(one));
  if (unknown !== undefined) refuse(`--${flag}: there is no "${unknown}"; there are ${known.join(", ")}`);
  return list as T[];
}

function refuse(text: string): never {
  process.stderr.write(`${text}\n\n${USAGE}`);
  process.exit(2);
}

function words(flags: string): string[] {
  return flags.split(" ").filter((word) => word !== "");
}

function clockOf(ms: number): string {
  const passed = Math.floor(ms / 1_000);
  return `${Math.floor(passed / 60)}:${String(passed % 60).padStart(2, "0")}`;
}
