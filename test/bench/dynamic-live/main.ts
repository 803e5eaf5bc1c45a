/**
 * Models whose run time depends on the input, on one real executor. The load is a share of its capacity in batches of
 * similar requests. It measures the finish rate when the scheduler knows mean latencies only, each application's
 * distribution, and each request's length as well. The same requests are sent at the same moments, one system after the
 * other.
 *
 *   npm run bench:dynamic-live -- [--load 0.8] [--capacity r/s] [--seconds 30] [--warmup 45] [--rounds 1] [--models
 *   loop,text] [--latency means,distributions,hints] [--json]
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Tutti, connect, tensor } from "@tutti/client";
import { TuttiError } from "@tutti/protocol";
import { Prng } from "@tutti/units";
import { RunningSystem } from "../system/running-system.ts";
import { type Capacity, capacityOf } from "./capacity.ts";
import { LIVE_MODELS, type LiveModel, type LiveRequest, drawRequests, writeModel } from "./live-models.ts";
import { readArguments } from "../arguments.ts";

const HELP =
  "npm run bench:dynamic-live -- [--load 0.8] [--capacity r/s] [--seconds 30] [--warmup 45] [--rounds 1] [--models loop,text] [--latency means,distributions,hints] [--json]\n";
const values = readArguments(HELP, {
  load: { type: "string", default: "0.8" },
  capacity: { type: "string" },
  seconds: { type: "string", default: "30" },
  warmup: { type: "string", default: "45" },
  rounds: { type: "string", default: "1" },
  models: { type: "string", default: "loop,text" },
  latency: { type: "string", default: "means,distributions,hints" },
  json: { type: "boolean", default: false },
});
/** Largest lag of the generator in a run that counts. */
const LAG_MS = 5;

interface Measured {
  readonly model: string;
  readonly latency: string;
  readonly round: number;
  readonly capacity: Capacity;
  readonly offered: number;
  readonly inTime: number;
  readonly finishRate: number;
  readonly byApp: Readonly<Record<string, number>>;
  readonly refused: Readonly<Record<string, number>>;
  readonly late: number;
  readonly batchMean: number;
  readonly busy: number;
  /** How late the generator itself sent, p99 in ms. */
  readonly lagMs: number;
}

const folder = mkdtempSync(join(tmpdir(), "tutti-live-"));
const results: Measured[] = [];
try {
  for (const model of LIVE_MODELS.filter(({ name }) => values.models.split(",").includes(name))) {
    const home = join(folder, model.name);
    writeModel(home, model);
    const given = Number(values.capacity);
    const capacity =
      values.capacity === undefined
        ? await capacityOf(home, model, 1)
        : { alike: given, mixed: Number.NaN, single: Number.NaN };
    if (!values.json) process.stdout.write(`${renderCapacity(model, capacity)}\n`);
    for (let round = 1; round <= Number(values.rounds); round++) {
      for (const latency of values.latency.split(",")) {
        const measured = await measure({ model, home, latency, round, capacity });
        results.push(measured);
        if (!values.json) process.stdout.write(`${render(measured)}\n`);
      }
    }
  }
  if (values.json) process.stdout.write(`${JSON.stringify(results)}\n`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

interface Setting {
  readonly model: LiveModel;
  readonly home: string;
  readonly latency: string;
  readonly round: number;
  readonly capacity: Capacity;
}

async function measure({ model, home, latency, round, capacity }: Setting): Promise<Measured> {
  const system = await RunningSystem.start(["--no-demo", "--models", home, "--executors", "1", "--latency", latency]);
  try {
    const client = await connect({ servers: system.url, app: "bench" });
    const warmup = Number(values.warmup);
    const rate = Number(values.load) * capacity.alike;
    const requests = drawRequests(model, rate, warmup + Number(values.seconds), new Prng(round));
    const { outcomes, during } = await system.watch(() => offer(client, model, requests));
    await client.close();
    const counted = outcomes.filter((_, i) => requests[i]!.at >= warmup);
    const share = (some: readonly Outcome[]): number =>
      some.filter(({ code }) => code === "in time").length / Math.max(1, some.length);
    const refused: Record<string, number> = {};
    for (const { code } of counted) if (code !== "in time" && code !== "late") refused[code] = (refused[code] ?? 0) + 1;
    const lags = counted.map(({ lagMs }) => lagMs).sort((a, b) => a - b);
    const steady = during.slice(warmup);
    const sum = (name: "items" | "batches"): number => steady.reduce((total, status) => total + status[name], 0);
    return {
      model: model.name,
      latency,
      round,
      capacity,
      offered: counted.length,
      inTime: counted.filter(({ code }) => code === "in time").length,
      finishRate: share(counted),
      byApp: Object.fromEntries(model.apps.map(({ name }) => [name, share(counted.filter(({ app }) => app === name))])),
      refused,
      late: counted.filter(({ code }) => code === "late").length,
      batchMean: sum("items") / Math.max(1, sum("batches")),
      busy: steady.reduce((total, { gpus }) => total + (gpus[0]?.busy ?? 0), 0) / Math.max(1, steady.length),
      lagMs: lags[Math.floor(0.99 * lags.length)] ?? 0,
    };
  } finally {
    await system.stop();
  }
}

interface Outcome {
  readonly app: string;
  /** "in time", "late", or the reason why there was no answer. */
  readonly code: string;
  readonly lagMs: number;
}

/**
 * Open loop: requests leave when they are due, whatever became of earlier ones. Inputs are made once for each length.
 */
async function offer(client: Tutti, model: LiveModel, requests: readonly LiveRequest[]): Promise<Outcome[]> {
  const inputs = new Map(
    requests.map(({ length }) => {
      const { name, dims, values: data } = model.inputOf(length);
      return [length, { [name]: tensor(data, [...dims]) }];
    }),
  );
  const begin = performance.now() + 100;
  const outcomes: Promise<Outcome>[] = [];
  for (const { at, app, length } of requests) {
    const dueMs = begin + at * 1000;
    const wait = dueMs - performance.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    const lagMs = performance.now() - dueMs;
    const answer = client.infer(model.name, inputs.get(length)!, { app, slo: model.sloMs });
    outcomes.push(
      answer.then(
        () => ({ app, lagMs, code: performance.now() - dueMs - lagMs <= model.sloMs ? "in time" : "late" }),
        (error: unknown) => ({ app, lagMs, code: error instanceof TuttiError ? error.code : String(error) }),
      ),
    );
  }
  return Promise.all(outcomes);
}

function renderCapacity({ name }: LiveModel, { alike, mixed, single }: Capacity): string {
  const offered = `${(Number(values.load) * alike).toFixed(1)} r/s are offered, ${values.load} of the most`;
  return `${name}: one executor carries ${alike.toFixed(1)} r/s in batches of like requests, ${mixed.toFixed(1)} in batches as they come, ${single.toFixed(1)} one by one; ${offered}`;
}

function render(measured: Measured): string {
  const { model, latency, finishRate, offered, byApp, refused, late, batchMean, busy, lagMs } = measured;
  const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
  const apps = Object.entries(byApp).map(([app, share]) => `${app} ${percent(share)}`);
  return [
    `${model} with ${latency}: ${percent(finishRate)} of ${offered} in time (${apps.join(", ")})`,
    `  batches of ${batchMean.toFixed(2)}, busy ${percent(busy)}; refused ${JSON.stringify(refused)}, late ${late}` +
      (lagMs > LAG_MS ? `; the generator was late itself: p99 ${lagMs.toFixed(1)} ms` : ""),
  ].join("\n");
}
