/**
 * Loaded into the attacked process (`node --import`): measures every turn of its event loop, as the process itself
 * does, and besides how long its thread waited for a processor in it. On a machine that an attacker shares, the
 * difference is what the turn took by itself.
 */
import { appendFileSync, openSync, readSync } from "node:fs";
import { performance } from "node:perf_hooks";
import { isMainThread } from "node:worker_threads";
import { type TurnRecord, TURNS_FILE } from "./turns.ts";

const EVERY_MS = 100;
const file = process.env[TURNS_FILE];

if (isMainThread && file !== undefined && process.env["TUTTI_PROCESS"] === "node") probeInto(file);

function probeInto(path: string): void {
  const schedule = openSync("/proc/thread-self/schedstat", "r");
  const text = Buffer.alloc(128);
  /** Nanoseconds in which this thread could have run and had no processor: the second number. It costs 3 µs. */
  const waitedNs = (): number => Number(text.toString("latin1", 0, readSync(schedule, text, 0, 128, 0)).split(" ")[1]);

  let [checkedMs, idleMs, waited] = [performance.now(), performance.nodeTiming.idleTime, waitedNs()];
  let record = emptyRecord();
  let writtenMs = checkedMs;
  const probe = (): void => {
    const [now, idle, all] = [performance.now(), performance.nodeTiming.idleTime, waitedNs()];
    const wallMs = now - checkedMs - (idle - idleMs);
    const ownMs = Math.max(0, wallMs - (all - waited) / 1e6);
    record.turns++;
    record.own.push(ownMs);
    record.wallMsMax = Math.max(record.wallMsMax, wallMs);
    if (now - writtenMs > EVERY_MS) {
      const own = record.own.filter((ms) => ms > 1);
      appendFileSync(path, `${JSON.stringify({ ...record, own, atMs: Date.now() } satisfies TurnRecord)}\n`);
      record = emptyRecord();
      writtenMs = now;
    }
    // The probe's own writing belongs to no turn.
    [checkedMs, idleMs, waited] = [performance.now(), performance.nodeTiming.idleTime, waitedNs()];
    setImmediate(probe).unref();
  };
  setImmediate(probe).unref();
}

function emptyRecord(): { pid: number; turns: number; own: number[]; wallMsMax: number } {
  return { pid: process.pid, turns: 0, own: [], wallMsMax: 0 };
}
