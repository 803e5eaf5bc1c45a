/**
 * Measures how long nothing is granted when the leading ranker ends, in a cluster of processes under load. It also
 * checks whether standbys leave a living leader alone while every core is busy. The load is open-loop.
 *
 *   npm run bench:takeover -- [--kills 30] [--terms 30] [--controls 30] [--soak 60] [--rate 200] [--rankers 3]
 *   [--settle 2] [--busy] [--loops here|elsewhere] [--threads] [--json]
 *
 * `kills` by SIGKILL, `terms` by SIGTERM, `controls` by no signal at all (the pause between two grants around such an
 * instant, which requests and machine cause by themselves). Each comes once the cluster has `rankers` again and the
 * newest of them has run for `settle` seconds (a process that starts needs a core for one, and is still compiling for
 * some more). `soak`: seconds with as many busy loops as there are cores. From 30 ms before each end to 60 ms after it
 * a request comes every 3 ms, so that at any rate (20 leaves two cores to it alone) the next grant never waits for a
 * request. All processes are warm: 10 s of such requests come first. `busy`: the loops run beside the ends, too. `loops
 * elsewhere`: each in a session of its own, as another service or another user would have it; Linux weighs sessions
 * against each other (autogroup), and not the loops against each thread. `threads`: the threads that had the processors
 * from each SIGKILL to the next grant (Linux).
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { Prng } from "@tutti/units";
import { TuttiUp } from "../../e2e/tutti-up.ts";
import { ProcessorTime, type ThreadTime } from "./processor-time.ts";
import { RankerTap } from "./ranker-tap.ts";
import { readArguments } from "../arguments.ts";

const USAGE =
  "npm run bench:takeover -- [--kills 30] [--terms 30] [--controls 30] [--soak 60] [--rate 200] [--rankers 3] [--settle 2] [--busy] [--loops here|elsewhere] [--threads] [--seed 1] [--json]\n";
const MODELS = "models: [{ name: resnet50, sloMs: 100, batchMax: 32, alphaMs: 1.053, betaMs: 5.072 }]\n";
/** Requests around an end, in ms. */
const ASKS = { before: 30, after: 60, every: 3 };
/** Longer than any measurement; the load ends with the benchmark. */
const LOAD_SECONDS = "3600";
/**
 * Length of the warm-up. V8 compiles hot code in the first seconds, here as in all other processes, and compiling takes
 * cores from the measured ones.
 */
const WARM_UP_MS = 10_000;
const LOOPS = availableParallelism();
/** A busy loop that runs until its parent is gone: a session of its own gets no Ctrl-C. */
const LOOP = "const { ppid } = process; while (process.ppid === ppid) for (let i = 0; i < 1e8; i++);";

const values = readArguments(USAGE, {
  kills: { type: "string", default: "30" },
  terms: { type: "string", default: "30" },
  controls: { type: "string", default: "30" },
  soak: { type: "string", default: "60" },
  rate: { type: "string", default: "200" },
  rankers: { type: "string", default: "3" },
  settle: { type: "string", default: "2" },
  seed: { type: "string", default: "1" },
  busy: { type: "boolean", default: false },
  loops: { type: "string", default: "here" },
  threads: { type: "boolean", default: false },
  json: { type: "boolean", default: false },
});

const areElsewhere = values.loops === "elsewhere";
if (!areElsewhere && values.loops !== "here") {
  process.stderr.write(`--loops takes here or elsewhere, not "${values.loops}"\n\n${USAGE}`);
  process.exit(2);
}

const settleMs = 1_000 * Number(values.settle);

interface Times {
  readonly count: number;
  readonly p50Ms: number;
  readonly p90Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}
interface Result {
  /** Time from the signal until another ranker's first grant was heard. */
  readonly killed: Times;
  readonly terminated: Times;
  /**
   * SIGTERM: a leader that is followed grants until then. The time is from its last grant to the next leader's first,
   * which at 200 r/s are some ms apart anyway.
   */
  readonly handedOver: Times;
  /** Time between two grants, where no ranker ends. */
  readonly control: Times;
  /** With `threads`: means from SIGKILL to the next grant, ms. */
  readonly threads?: readonly ThreadTime[];
  readonly soak: { readonly seconds: number; readonly burners: number; readonly takeovers: number };
}

const folder = await mkdtemp(join(tmpdir(), "tutti-takeover-"));
const profiles = join(folder, "profiles.yaml");
await writeFile(profiles, MODELS);
// Without patience the next grant is due with the next request, so that no batch's deferral is measured.
process.env["TUTTI_LINKS"] = "off"; // grants are heard on NATS
const up = await TuttiUp.start(["--emulate", profiles, "--gpus", "4", "--rankers", values.rankers, "--patience", "0"]);
const tap = await RankerTap.open(up);
const asker = new Worker(new URL("asker.ts", import.meta.url), { workerData: { url: up.url, everyMs: ASKS.every } });
const load = spawn(
  process.execPath,
  [
    join(import.meta.dirname, "../load/main.ts"),
    ...["--nats", up.url, "--rate", values.rate, "--seconds", LOAD_SECONDS, "--slo", "100ms"],
  ],
  { stdio: "ignore" },
);
try {
  await askFor(WARM_UP_MS);
  const result: Result = {
    ...(await withLoops(values.busy, allEnds)),
    soak: await soak(Number(values.soak)),
  };
  process.stdout.write(values.json ? `${JSON.stringify(result)}\n` : render(result));
} finally {
  load.kill("SIGKILL");
  await asker.terminate();
  await tap.close();
  await up.stop();
  await rm(folder, { recursive: true });
}

interface Strikes {
  readonly after: Times;
  readonly pause: Times;
}

async function allEnds(): Promise<Omit<Result, "soak">> {
  const processors = values.threads ? new ProcessorTime() : undefined;
  const { after: killed } = await ends("SIGKILL", Number(values.kills), processors);
  const { after: terminated, pause: handedOver } = await ends("SIGTERM", Number(values.terms));
  const { pause: control } = await ends(undefined, Number(values.controls));
  processors?.close();
  return { killed, terminated, handedOver, control, ...(processors !== undefined && { threads: processors.report() }) };
}

/** @param signal - undefined: no ranker ends */
async function ends(signal: NodeJS.Signals | undefined, count: number, processors?: ProcessorTime): Promise<Strikes> {
  const prng = new Prng(Number(values.seed));
  const times: { readonly afterMs: number; readonly pauseMs: number }[] = [];
  for (let i = 0; i < count; i++) {
    const pid = await tap.leader(Number(values.rankers) - 1);
    // The offset is random, so that ends are not in step with any heartbeat.
    await new Promise((resolve) => setTimeout(resolve, settleMs + prng.nextInt(100)));
    processors?.open(pid);
    const asked = askFor(ASKS.before + ASKS.after);
    await new Promise((resolve) => setTimeout(resolve, ASKS.before));
    processors?.begin();
    times.push(signal === undefined ? { afterMs: 0, pauseMs: await tap.pause() } : await tap.strike(pid, signal));
    processors?.end();
    const outcomes = Object.entries(await asked).map(([outcome, requests]) => `${requests} ${outcome}`);
    process.stderr.write(
      `${signal ?? "control"} ${i + 1} of ${count}: ${times.at(-1)!.afterMs.toFixed(1)} ms, ${times.at(-1)!.pauseMs.toFixed(1)} without a grant; ${outcomes.join(", ")}\n`,
    );
  }
  return { after: summary(times.map(({ afterMs }) => afterMs)), pause: summary(times.map(({ pauseMs }) => pauseMs)) };
}

/** @returns the requests by their end */
async function askFor(durationMs: number): Promise<Record<string, number>> {
  asker.postMessage(durationMs);
  const [outcomes] = (await once(asker, "message")) as [Record<string, number>];
  return outcomes;
}

/** Runs busy loops: the leader is busy too, and so is every standby that pings it. */
async function soak(seconds: number): Promise<Result["soak"]> {
  await tap.leader(Number(values.rankers) - 1);
  const before = tap.firstGrants.length;
  await withLoops(seconds > 0, () => new Promise<void>((resolve) => setTimeout(resolve, seconds * 1_000)));
  return { seconds, burners: seconds > 0 ? LOOPS : 0, takeovers: tap.firstGrants.length - before };
}

async function withLoops<T>(isBusy: boolean, run: () => Promise<T>): Promise<T> {
  const loops: ChildProcess[] = [];
  for (let i = 0; i < LOOPS && isBusy; i++)
    loops.push(spawn(process.execPath, ["-e", LOOP], { detached: areElsewhere }));
  const end = (): void => loops.forEach((loop) => loop.kill("SIGKILL"));
  process.once("exit", end);
  try {
    return await run();
  } finally {
    end();
    process.off("exit", end);
  }
}

function summary(times: readonly number[]): Times {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share: number): number =>
    Math.round((sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] ?? 0) * 10) / 10;
  return { count: times.length, p50Ms: at(0.5), p90Ms: at(0.9), p99Ms: at(0.99), maxMs: at(1) };
}

function render({ killed, terminated, handedOver, control, threads, soak: soaked }: Result): string {
  const line = (what: string, { count, p50Ms, p90Ms, p99Ms, maxMs }: Times): string =>
    [what.padEnd(24), ...[count, p50Ms, p90Ms, p99Ms, maxMs].map((value) => String(value).padStart(8))].join("");
  return [
    `${"ms".padEnd(24)}${["n", "p50", "p90", "p99", "max"].map((title) => title.padStart(8)).join("")}`,
    line("SIGKILL to next grant", killed),
    line("SIGTERM to next leader", terminated),
    line("SIGTERM, without grants", handedOver),
    line("nobody ends, likewise", control),
    ...(threads === undefined ? [] : ["", "from SIGKILL to the next grant".padEnd(32) + "    runs   waits"]),
    ...(threads ?? []).filter(({ runMs }) => runMs >= 0.1).map(({ name, runMs, waitMs }) => row(name, runMs, waitMs)),
    `${soaked.seconds} s with ${soaked.burners} busy loops: ${soaked.takeovers} takeovers of a living leader`,
    "",
  ].join("\n");
}

function row(name: string, ...ms: readonly number[]): string {
  return [name.padEnd(32), ...ms.map((value) => value.toFixed(2).padStart(8))].join("");
}
