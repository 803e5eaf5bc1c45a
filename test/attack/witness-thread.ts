/** The thread of witness.ts. Its first message says that it was served once, its second is the report. */
import { parentPort, workerData } from "node:worker_threads";
import { ask, pause } from "./clients/http.ts";
import { GOOD_SLO_MS, type WitnessOrders, type WitnessReport, memoryOf } from "./witness.ts";

const PROBE_MS = 100;
const GOOD_MS = 250;
const WEIGH_MS = 100;
/** A time-out longer than any bound, so that the report has the actual delay. */
const GIVE_UP_MS = 10_000;

const { http, pid, authorization } = workerData as WitnessOrders;
const restBytes = memoryOf(pid);
const failed: string[] = [];
let [probes, healthMsMax, asked, grownBytesMax] = [0, 0, 0, 0];
let isStopping = false;

async function probe(): Promise<void> {
  const { status, ms } = await ask(`${http}/v2/health/live`, { timeoutMs: GIVE_UP_MS });
  probes++;
  healthMsMax = Math.max(healthMsMax, status === 200 ? ms : GIVE_UP_MS);
}

function weigh(): void {
  grownBytesMax = Math.max(grownBytesMax, memoryOf(pid) - restBytes);
}

async function good(): Promise<void> {
  asked++;
  const first = await goodOnce();
  if (first === undefined) return;
  const second = await goodOnce();
  if (second !== undefined) failed.push(`${first}; ${second}`);
}

/** @returns the problem of its answer; undefined: none */
async function goodOnce(): Promise<string | undefined> {
  const row = [asked, asked + 0.25, asked + 0.5, asked + 0.75];
  const body = JSON.stringify({ inputs: [{ name: "x", datatype: "FP32", shape: [1, row.length], data: row }] });
  const headers = {
    "content-type": "application/json",
    "tutti-app": "b",
    "tutti-slo": `${GOOD_SLO_MS}ms`,
    ...(authorization !== undefined && { authorization }),
  };
  const { status, text, ms } = await ask(`${http}/v2/models/add-one/infer`, { body, headers, timeoutMs: GIVE_UP_MS });
  if (status !== 200) return `${status} after ${Math.round(ms)} ms: ${text.slice(0, 160)}`;
  const { outputs } = JSON.parse(text) as { readonly outputs: readonly { readonly data: readonly number[] }[] };
  const data = outputs[0]?.data ?? [];
  return row.every((value, i) => data[i] === value + 1) ? undefined : `a wrong answer: ${text.slice(0, 160)}`;
}

async function repeat(look: () => Promise<void> | void, everyMs: number): Promise<void> {
  while (!isStopping) {
    await look();
    await pause(everyMs);
  }
  await look();
}

parentPort?.once("message", () => (isStopping = true));
await good();
parentPort?.postMessage("served");
await Promise.all([repeat(probe, PROBE_MS), repeat(good, GOOD_MS), repeat(weigh, WEIGH_MS)]);
parentPort?.postMessage({ probes, healthMsMax, asked, failed, grownBytesMax } satisfies WitnessReport);
