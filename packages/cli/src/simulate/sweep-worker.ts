/** A worker thread of a sweep: runs the scenarios that it receives, one after the other. */
import { parentPort } from "node:worker_threads";
import { boundOf, nonPreemptiveRate, simulateDetailed } from "@tutti/simulator";
import { fromPortable } from "@tutti/sim-report/scenarios";
import type { FromSweepWorker, ToSweepWorker } from "./sweep-messages.ts";

parentPort?.on("message", (task: ToSweepWorker) => {
  parentPort?.postMessage(answer(task));
});

function answer(task: ToSweepWorker): FromSweepWorker {
  try {
    const { kind } = task;
    const scenario = fromPortable(task.scenario);
    if (kind === "non-preemptive") return { kind, rate: nonPreemptiveRate(scenario, task.clairvoyantRps) };
    if (kind === "bound") return { kind, bound: boundOf(scenario) };
    return { kind, run: simulateDetailed(scenario) };
  } catch (error) {
    return { kind: "failed", text: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}
