import { parentPort, workerData } from "node:worker_threads";
import { type ReplayJob, runReplay } from "./replay-run.ts";

let told: unknown;
try {
  told = { answer: runReplay(workerData as ReplayJob) };
} catch (error) {
  told = { problem: error instanceof Error ? error.message : String(error) };
}
parentPort?.postMessage(told);
