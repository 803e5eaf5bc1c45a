/** Interval at which the worker checks whether the other thread still is in the same run. */
const LOOK_MS = 1_000;
/**
 * A run that lasts for so many checks hangs. Runs here take milliseconds, and a stopped process skips its checks too.
 */
const LOOKS_MAX = 3;

/**
 * Watches runs on the caller's thread (InlineModels) from the session worker. A run that hangs there keeps that thread
 * from noticing it. The only remedy, as for any run that hangs, is to end the process; its supervisor starts it again.
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

/** `process.abort` is not available in a worker. */
const abort = (): void => void process.kill(process.pid, "SIGABRT");
