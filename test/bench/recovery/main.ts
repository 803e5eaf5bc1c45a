/**
 * Disturbs a running system under load, one history after another, and measures how much it serves in time afterwards.
 *
 *   npm run bench:recovery -- [--rate 4000] [--histories stall,flood] [--ways tutti,tutti-nats] [--json]
 *
 * The model is Table 2's ResNet50 on eight emulated accelerators, as in bench:peers; 4,000 r/s are some 0.85 of its
 * goodput on two cores. Each history has a system of its own, over HTTP and over NATS in turn.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { readArguments } from "../arguments.ts";
import { type Contestant, start } from "../peers/contestants.ts";
import type { LoadReport, LoadWindow } from "../peers/load-plan.ts";
import type { Asked } from "../peers/requests.ts";
import { expectedOf, rowsOf, servedModel } from "../peers/served-models.ts";
import { Trials } from "../peers/trials.ts";
import { workloadOf } from "../peers/workloads.ts";

const NAMES = ["cold", "step", "flood", "stall", "executor", "neighbour"] as const;
type Name = (typeof NAMES)[number];
const WAYS = ["tutti", "tutti-nats"] as const;

const USAGE = `npm run bench:recovery -- [options]
What a system under load serves in time after a disturbance.

  --rate <r/s>          of the load (4000)
  --seconds <n>         of load after each disturbance (9)
  --histories <names>   of ${NAMES.join(",")}; all by default
  --ways <names>        of ${WAYS.join(",")}; both by default
  --json                print JSON instead of a table
  --help                print this
`;
/** Answers in time count from so long after a disturbance's end on. */
const GRACE_S = 3;
/** Beside a busy core a system can't carry what two carry. */
const BESIDE_SHARE = 0.6;
const FLOOD_TIMES = 5;
const FLOOD_S = 2;
const STALL_S = 1;
/** Load before a disturbance, after which code is compiled and rates are known. */
const BEFORE_S = 4;

const values = readArguments(USAGE, {
  rate: { type: "string", default: "4000" },
  seconds: { type: "string", default: "9" },
  histories: { type: "string", default: NAMES.join(",") },
  ways: { type: "string", default: WAYS.join(",") },
  json: { type: "boolean", default: false },
});
const rate = Number(values.rate);
const seconds = Number(values.seconds);
const histories = listOf("histories", values.histories, NAMES);
const ways = listOf("ways", values.ways, WAYS);
if (!(rate > 0) || !(seconds > GRACE_S)) refuse(`--rate is above 0, and --seconds above ${GRACE_S}`);

const workload = workloadOf("table2");
const folder = mkdtempSync(join(tmpdir(), "recovery-"));
process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130));
const say = (text: string): void => void process.stderr.write(`bench:recovery ${text}\n`);

interface Recovery {
  readonly history: Name;
  readonly way: string;
  readonly rate: number;
  /** Shares in time: from the disturbance's end on, and from GRACE_S later. */
  readonly atOnce: number;
  readonly later: number;
}

const model = servedModel("resnet50", { folder });
const rows = rowsOf(model);
const asked: Asked[] = [{ model, rows, expected: await expectedOf(model, rows) }];
const trials = new Trials({ sloMs: workload.sloMs, say });
process.once("exit", () => trials.close());
const results: Recovery[] = [];
for (const history of histories)
  for (const way of ways) {
    say(`${history}, ${way}`);
    const started = await start([way], {
      workload,
      asked,
      setting: workload.settings[0]!,
      folder,
      tuttiFlags: [],
      say,
    });
    if (typeof started === "string") throw new Error(started);
    const [system] = started as [Contestant];
    try {
      results.push({ history, way, ...(await run(history, system)) });
    } finally {
      await system.stop();
    }
  }
process.stdout.write(values.json ? `${JSON.stringify(results)}\n` : tableOf(results), () => process.exit(0));

async function run(history: Name, system: Contestant): Promise<Omit<Recovery, "history" | "way">> {
  const load = (perSecond: number, length: number): Promise<LoadReport> =>
    trials.offer(system, { perSecond, seconds: length }).then(({ report }) => report);
  if (history !== "cold") await load(Math.round((history === "step" ? 0.3 : 0.8) * rate), BEFORE_S);
  if (history === "flood") await load(FLOOD_TIMES * rate, FLOOD_S);
  if (history === "neighbour") {
    const perSecond = Math.round(BESIDE_SHARE * rate);
    const neighbour = spawn(process.execPath, ["-e", "for (;;);"], { stdio: "ignore" });
    try {
      return sharesOf(await load(perSecond, seconds), perSecond, 0);
    } finally {
      neighbour.kill("SIGKILL");
    }
  }
  const disturbance = history === "stall" ? stall(system) : history === "executor" ? kill(system) : undefined;
  const begin = performance.now();
  const report = load(rate, seconds + (disturbance === undefined ? 0 : STALL_S + 1));
  const endS = disturbance === undefined ? 0 : ((await disturbance) - begin) / 1_000;
  return sharesOf(await report, rate, endS);
}

/** Stops all processes of a system a second after the load has begun. @returns when they go on */
async function stall(system: Contestant): Promise<number> {
  await sleep(1_000);
  const processes = system.processes.living();
  for (const pid of processes) process.kill(pid, "SIGSTOP");
  await sleep(1_000 * STALL_S);
  for (const pid of processes) process.kill(pid, "SIGCONT");
  return performance.now();
}

/** Kills the executor a second after the load has begun. @returns when another has taken its place */
async function kill(system: Contestant): Promise<number> {
  await sleep(1_000);
  const executors = (): number[] => system.processes.living().filter((pid) => commandOf(pid).includes("executor"));
  const killed = executors();
  if (killed.length === 0) throw new Error("no process of the system is an executor");
  for (const pid of killed) process.kill(pid, "SIGKILL");
  while (!executors().some((pid) => !killed.includes(pid))) await sleep(20);
  return performance.now();
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return ""; // It has ended.
  }
}

function sharesOf({ windows }: LoadReport, perSecond: number, endS: number): Omit<Recovery, "history" | "way"> {
  const length = windows.reduce((sum, { offered }) => sum + offered, 0) / perSecond / windows.length;
  const from = (s: number): number => goodOf(windows.filter((_, i) => i * length >= s));
  return { rate: perSecond, atOnce: from(endS), later: from(endS + GRACE_S) };
}

function goodOf(windows: readonly LoadWindow[]): number {
  const sum = (of: (window: LoadWindow) => number): number => windows.reduce((total, one) => total + of(one), 0);
  return Number((sum(({ good }) => good) / sum(({ offered }) => offered)).toFixed(4));
}

function tableOf(all: readonly Recovery[]): string {
  const percent = (share: number): string => `${(100 * share).toFixed(2)} %`.padStart(9);
  const lines = all.map(
    ({ history, way, rate: at, atOnce, later }) =>
      `${history.padEnd(10)} ${way.padEnd(10)} ${String(at).padStart(6)}  ${percent(atOnce)}  ${percent(later)}`,
  );
  return `${["history    way           r/s  in time     after 3 s", ...lines].join("\n")}\n`;
}

function listOf<T extends string>(flag: string, given: string, known: readonly T[]): T[] {
  const list = [...new Set(given.split(","))];
  const unknown = list.find((one) => !(known as readonly string[]).includes(one));
  if (unknown !== undefined) refuse(`--${flag}: there is no "${unknown}"; there are ${known.join(", ")}`);
  return list as T[];
}

function refuse(text: string): never {
  process.stderr.write(`bench:recovery: ${text}\n\n${USAGE}`);
  process.exit(2);
}
