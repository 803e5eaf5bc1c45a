/** How often the worker looks whether the other thread still is in the same run. */
const LOOK_MS = 1_000;
/**
 * One that is in the same run for so many looks hangs: runs here take milliseconds, and a process that was stopped
 * looks as rarely.
 */
const LOOKS_MAX = 3;

/**
 * Watches runs on the caller's thread (InlineModels) from the session worker. A run that hangs there keeps that thread
 * from noticing it; ending the process is all that helps, as for any run that hangs, and its supervisor starts it
 * again.
 */
export function watchRuns(runs: Int32Array, end: () => void = abort): { stop(): void } {
  let seen = 0;
  let looks = 0;
  const timer = setInterval(() => {
    const now = Atomics.load(runs, 0);
    looks = now === seen && (now & 1) === 1 ? looks + 1 : 0;
    seen = now;
    if (looks >= LOOKS_MAX) end();
  }, LOOK_MS);
  return { stop: () => clearInterval(timer) };
}

/** `process.abort` is none of a worker's. */
const abort = (): void => void process.kill(process.pid, "SIGABRT");
