import { spawn } from "node:child_process";
import { once } from "node:events";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { watchRuns } from "./run-watch.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("only a run that is still the same after three looks is taken for one that hangs", () => {
  const runs = new Int32Array(new SharedArrayBuffer(4));
  const end = vi.fn();
  const watch = watchRuns(runs, end);
  for (let second = 0; second < 10; second++) {
    runs[0]! += 2; // Others have run since; this one is new.
    runs[0]! |= 1;
    vi.advanceTimersByTime(1_000);
  }
  runs[0]! += 1; // Nothing runs.
  vi.advanceTimersByTime(10_000);
  expect(end).not.toHaveBeenCalled();
  runs[0]! += 1;
  vi.advanceTimersByTime(3_999);
  expect(end).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1);
  expect(end).toHaveBeenCalled();
  watch.stop();
});

test("a process whose main thread hangs in a run is ended by its worker", async () => {
  vi.useRealTimers();
  const module = new URL("./run-watch.ts", import.meta.url).href;
  const inWorker = `
    import { parentPort, workerData } from "node:worker_threads";
    import { watchRuns } from ${JSON.stringify(module)};
    watchRuns(workerData);
    parentPort.postMessage("watches");`;
  const script = `
    import { Worker } from "node:worker_threads";
    const runs = new Int32Array(new SharedArrayBuffer(4));
    const worker = new Worker(${JSON.stringify(inWorker)}, { eval: true, workerData: runs });
    worker.once("message", () => { Atomics.add(runs, 0, 1); for (;;); });`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: "ignore" });
  expect(await once(child, "exit")).toEqual([null, "SIGABRT"]);
}, 30_000);
