/**
 * The alarm worker: a thread that wakes the main thread shortly before the next alarm of its process. Plain JavaScript,
 * so that it starts in a few milliseconds, built or not, and without a compiler of its own.
 *
 * It shares three int32 words with the main thread. `seq` counts the settings that concern it (it waits on this word,
 * so a setting wakes it). `target` is when to wake the main thread (monotonic microseconds modulo 2^32). `armed` is 0
 * when no alarm is set. After a wake it waits for the next setting. A target that moves later needs no wake: the worker
 * reads it again at the old one.
 */
import { parentPort, workerData } from "node:worker_threads";

const SEQ = 0;
const TARGET = 1;
const ARMED = 2;
/** @type {Int32Array} */
const shared = workerData;

function monotonicUs() {
  const [s, ns] = process.hrtime();
  return s * 1e6 + ns / 1e3;
}

/**
 * Microseconds left: differences of int32 wrap as clocks do, which tells targets up to 35 minutes away from past ones.
 */
const left = () => (Atomics.load(shared, TARGET) - (monotonicUs() | 0)) | 0;

parentPort?.postMessage("ready");
for (;;) {
  const seen = Atomics.load(shared, SEQ);
  for (;;) {
    if (Atomics.load(shared, ARMED) === 0) {
      Atomics.wait(shared, SEQ, seen);
      break;
    }
    const wait = left();
    if (wait <= 0) {
      parentPort?.postMessage(seen);
      Atomics.wait(shared, SEQ, seen);
      break;
    }
    if (Atomics.wait(shared, SEQ, seen, wait / 1e3) !== "timed-out") break;
  }
}
