/** A worker thread of a sweep: runs the scenarios that it receives, one after the other. */
import { parentPort } from "node:worker_threads";
import { boundOf, simulateDetailed } from "@tutti/simulator";
import { fromPortable } from "@tutti/sim-report/scenarios";
import type { FromSweepWorker, ToSweepWorker } from "./sweep-messages.ts";

parentPort?.on("message", (task: ToSweepWorker) => {
  parentPort?.postMessage(answer(task));
});

function answer({ kind, scenario: portable }: ToSweepWorker): FromSweepWorker {
  try {
    const scenario = fromPortable(portable);
    if (kind === "bound") return { kind, bound: boundOf(scenario) };
    return { kind, run: simulateDetailed(scenario) };
  } catch (error) {
    return { kind: "failed", text: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}
