/** Processor time and memory of a system's processes by name, read from Linux' /proc. */
import { readFileSync, readdirSync } from "node:fs";
import { basename } from "node:path";

export interface Usage {
  /** Processor time of all processes since they began, those that have ended included. */
  readonly cpuUs: number;
  /** Processor time by label of the process. */
  readonly byProcess: Readonly<Record<string, number>>;
}

export interface Memory {
  readonly bytes: number;
  /** PSS divides memory that several processes share (such as a runtime's own pages); RSS counts it once for each. */
  readonly kind: "PSS" | "RSS";
}

interface Known {
  readonly label: string;
  readonly startedAt: string;
  cpuUs: number;
}

/** Clock tick of the kernel, the same on every current Linux. */
const TICK_US = 10_000;
const PAGE_BYTES = 4_096;

export class ProcessGroup {
  readonly #known = new Map<number, Known>();

  /** @param root - the process that all others descend from */
  constructor(root: number) {
    const stat = statOf(root);
    if (stat !== undefined) this.#know(root, stat);
  }

  usage(): Usage {
    this.#refresh();
    const byProcess: Record<string, number> = {};
    let total = 0;
    for (const { label, cpuUs } of this.#known.values()) {
      byProcess[label] = (byProcess[label] ?? 0) + cpuUs;
      total += cpuUs;
    }
    return { cpuUs: total, byProcess };
  }

  memory(): Memory {
    const living = this.living();
    const pss = living.map(pssOf);
    if (pss.every((bytes) => bytes !== undefined)) return { bytes: sum(pss), kind: "PSS" };
    return { bytes: sum(living.map((pid) => Number(statOf(pid)?.[RSS] ?? 0) * PAGE_BYTES)), kind: "RSS" };
  }

  /** Living processes, the root first. */
  living(): number[] {
    this.#refresh();
    return [...this.#known].filter(([pid, { startedAt }]) => statOf(pid)?.[STARTED] === startedAt).map(([pid]) => pid);
  }

  /** Finds new processes. One whose parent has ended still belongs to the group if it was seen before. */
  #refresh(): void {
    const stats = new Map<number, string[]>();
    for (const name of readdirSync("/proc")) {
      const stat = /^\d+$/.test(name) ? statOf(Number(name)) : undefined;
      if (stat !== undefined) stats.set(Number(name), stat);
    }
    for (let isNew = true; isNew;) {
      isNew = false;
      for (const [pid, stat] of stats) {
        if (this.#isKnown(pid, stat) || !this.#isLivingParent(Number(stat[PARENT]), stats)) continue;
        this.#know(pid, stat);
        isNew = true;
      }
    }
    for (const [pid, stat] of stats) if (this.#isKnown(pid, stat)) this.#known.get(pid)!.cpuUs = cpuOf(stat);
  }

  #isKnown(pid: number, stat: readonly string[]): boolean {
    return this.#known.get(pid)?.startedAt === stat[STARTED];
  }
  #isLivingParent(pid: number, stats: ReadonlyMap<number, string[]>): boolean {
    const stat = stats.get(pid);
    return stat !== undefined && this.#isKnown(pid, stat);
  }
  #know(pid: number, stat: readonly string[]): void {
    this.#known.set(pid, { label: labelOf(commandOf(pid)), startedAt: stat[STARTED]!, cpuUs: cpuOf(stat) });
  }
}

/** Fields of /proc/<pid>/stat after the name; the first is the state. */
const PARENT = 1;
const USER = 11;
const SYSTEM = 12;
const STARTED = 19;
const RSS = 21;

function statOf(pid: number): string[] | undefined {
  const stat = readOr(`/proc/${pid}/stat`);
  return stat?.slice(stat.lastIndexOf(")") + 2).split(" ");
}

const cpuOf = (stat: readonly string[]): number => (Number(stat[USER]) + Number(stat[SYSTEM])) * TICK_US;

function pssOf(pid: number): number | undefined {
  const found = /^Pss: +(\d+) kB/m.exec(readOr(`/proc/${pid}/smaps_rollup`) ?? "");
  return found === null ? undefined : 1_024 * Number(found[1]);
}

const commandOf = (pid: number): string[] => (readOr(`/proc/${pid}/cmdline`) ?? "").split("\0").filter(Boolean);

/**
 * A label short enough for a table. It is a program's name; for an interpreter the script's, with the word that follows
 * it.
 */
export function labelOf(command: readonly string[]): string {
  const [program = "?", ...rest] = command;
  const name = basename(program.split(" ")[0]!);
  if (!/^(node|python[\d.]*)$/.test(name)) return name;
  const at = rest.findIndex((word) => /\.(m?[jt]s|py)$/.test(word));
  if (at < 0) return name;
  const script = rest[at]!.split("/");
  const shown = script.at(-1) === "main.ts" ? (script.at(-3) ?? "main") : script.at(-1)!;
  const role = rest[at + 1];
  return role === undefined || !/^[a-z]/.test(role) ? shown : `${shown} ${role}`;
}

function readOr(path: string): string | undefined {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return undefined; // It has ended, or another user owns it.
  }
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
