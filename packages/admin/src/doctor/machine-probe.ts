import { readFileSync, statfsSync } from "node:fs";
import { availableParallelism, freemem, loadavg, totalmem } from "node:os";
import { dirname } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { type LatenessReport, NodeClock } from "@tutti/node/clock";
import { after, micros } from "@tutti/units";
import { type MachineFacts, cpuQuotaOf, memoryLimitOf } from "./machine.ts";

/** @param storeFolder - may not exist yet */
export function readMachine(storeFolder: string): MachineFacts {
  const { open_files: files } = limits();
  const own = cgroupFolder();
  return {
    node: process.versions.node,
    cpus: availableParallelism(),
    cpuQuota: cpuQuotaOf(text(`${own}/cpu.max`)),
    load: loadavg()[0] ?? 0,
    memoryBytes: totalmem(),
    memoryFreeBytes: freeMemory(),
    memoryLimitBytes: memoryLimitOf(text(`${own}/memory.max`)),
    openFilesSoft: countOf(files?.soft),
    openFilesHard: countOf(files?.hard),
    store: storeOf(storeFolder),
  };
}

type Limits = Readonly<Record<string, { readonly soft: unknown; readonly hard: unknown } | undefined>>;

function limits(): Limits {
  const report = process.report.getReport() as { readonly userLimits?: Limits };
  return report.userLimits ?? {};
}
const countOf = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined);

function text(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined; // not on this system
  }
}

/** The process's own cgroup where it is visible, else the root's: inside a container they are the same. */
function cgroupFolder(): string {
  const own = /^0::(\/.*)$/m.exec(text("/proc/self/cgroup") ?? "")?.[1] ?? "/";
  const folder = `/sys/fs/cgroup${own === "/" ? "" : own}`;
  return text(`${folder}/cpu.max`) === undefined ? "/sys/fs/cgroup" : folder;
}

/** Available memory, including reclaimable caches: `freemem` counts only unused memory. */
function freeMemory(): number {
  const kilobytes = Number(/^MemAvailable:\s+(\d+) kB$/m.exec(text("/proc/meminfo") ?? "")?.[1]);
  return Number.isFinite(kilobytes) ? kilobytes * 1_024 : freemem();
}

const TMPFS = 0x01021994;

function storeOf(folder: string): MachineFacts["store"] {
  for (let at = folder; ; at = dirname(at)) {
    try {
      const { bavail, bsize, type } = statfsSync(at);
      return { folder, freeBytes: bavail * bsize, isInMemory: type === TMPFS };
    } catch (error) {
      if (dirname(at) === at) throw error;
    }
  }
}

export interface Lateness {
  readonly timers: LatenessReport;
  readonly loopP99Us: number;
}

/** Measures how late the actors' clock wakes, over half a second of timers a few milliseconds apart. */
export async function measureTimers(count = 100): Promise<Lateness> {
  const clock = new NodeClock();
  await clock.ready();
  const loop = monitorEventLoopDelay({ resolution: 1 });
  loop.enable();
  await new Promise<void>((done) => {
    let left = count;
    const alarm = clock.alarm(() => {
      if (--left === 0) return done();
      alarm.set(after(clock.now(), micros(4_000 + 37 * (left % 50))));
    });
    alarm.set(after(clock.now(), micros(5_000)));
  });
  loop.disable();
  const timers = clock.latenessReport();
  clock.close();
  // The histogram records intervals between wake-ups, which are a millisecond apart.
  return { timers, loopP99Us: Math.max(0, Math.round(loop.percentile(99) / 1_000 - 1_000)) };
}
