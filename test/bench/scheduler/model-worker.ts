/** A thread of ModelThreads: see threads.ts. */
import { parentPort, workerData } from "node:worker_threads";
import { type ThreadPlan, prepare, warmUp } from "./threads.ts";
import { drawArrivals } from "./workload.ts";

const plan = workerData as ThreadPlan;
warmUp(plan);
const run = prepare(plan, drawArrivals(plan.shape, plan.perMicro, plan.requests, plan.seed));
parentPort!.postMessage("ready");
const start = new Int32Array(plan.progress);
while (Atomics.load(start, plan.threads) === 0) Atomics.wait(start, plan.threads, 0);
parentPort!.postMessage(run());
