/**
 * Threads of the machine that have the processors between two moments. Linux counts it
 * (/proc/<pid>/task/<tid>/schedstat: ns run, ns waited for a core).
 */
import { closeSync, openSync, readFileSync, readSync, readdirSync } from "node:fs";

/** An opened thread, read often: opening all of them takes longer than the measured time. */
interface Thread {
  readonly fd: number;
  readonly name: string;
  readonly before: { run: number; wait: number };
}

export interface ThreadTime {
  readonly name: string;
  readonly runMs: number;
  readonly waitMs: number;
}

const MS = 1e6;
const LINE = Buffer.alloc(128);

export class ProcessorTime {
  readonly #sums = new Map<string, { run: number; wait: number }>();
  #threads: Thread[] = [];
  #windows = 0;

  /** Opens all threads; those of `victim` have a name of their own. Without /proc there is nothing to read. */
  open(victim: number): void {
    this.close();
    for (const pid of entriesOf("/proc")) {
      const role = Number(pid) === victim ? "struck" : roleOf(textOf(`/proc/${pid}/cmdline`));
      for (const tid of entriesOf(`/proc/${pid}/task`)) {
        try {
          const fd = openSync(`/proc/${pid}/task/${tid}/schedstat`, "r");
          const name = `${role}: ${textOf(`/proc/${pid}/task/${tid}/comm`).trim()}`;
          this.#threads.push({ fd, name, before: { run: 0, wait: 0 } });
        } catch {
          // It has ended meanwhile.
        }
      }
    }
  }
  close(): void {
    for (const { fd } of this.#threads.splice(0)) closeSync(fd);
  }

  begin(): void {
    for (const thread of this.#threads) Object.assign(thread.before, read(thread.fd) ?? thread.before);
  }
  end(): void {
    this.#windows++;
    for (const { fd, name, before } of this.#threads) {
      const now = read(fd);
      if (now === undefined) continue;
      const sum = this.#sums.get(name) ?? { run: 0, wait: 0 };
      this.#sums.set(name, { run: sum.run + now.run - before.run, wait: sum.wait + now.wait - before.wait });
    }
  }

  /** Means over the windows so far, the busiest first. */
  report(): ThreadTime[] {
    const mean = (ns: number): number => Math.round((100 * ns) / MS / Math.max(1, this.#windows)) / 100;
    return [...this.#sums]
      .map(([name, { run, wait }]) => ({ name, runMs: mean(run), waitMs: mean(wait) }))
      .filter(({ runMs }) => runMs > 0)
      .toSorted((a, b) => b.runMs - a.runMs);
  }
}

function read(fd: number): { readonly run: number; readonly wait: number } | undefined {
  try {
    const [run, wait] = LINE.toString("latin1", 0, readSync(fd, LINE, 0, LINE.length, 0))
      .split(" ")
      .map(Number);
    return run === undefined || wait === undefined ? undefined : { run, wait };
  } catch {
    return undefined; // It has ended.
  }
}

function roleOf(command: string): string {
  const service = /services\/([a-z]+)\//.exec(command)?.[1];
  if (service !== undefined) return service;
  if (command.includes("nats-server")) return "nats-server";
  if (command.includes("bench/takeover")) return "benchmark";
  if (command.includes("bench/load")) return "load";
  return command.includes("main.ts up") ? "tutti up" : "others";
}

function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => /^\d+$/.test(name));
  } catch {
    return [];
  }
}
function textOf(file: string): string {
  try {
    return readFileSync(file, "utf8").replaceAll("\0", " ");
  } catch {
    return "";
  }
}
