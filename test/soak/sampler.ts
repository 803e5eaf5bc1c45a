/** Samples the resources of every process of a cluster once a second: memory, descriptors, and disk usage. */
import { readFileSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { memoryOf } from "../attack/witness.ts";
import { type TuttiUp, commandOf } from "../e2e/tutti-up.ts";
import type { Sample } from "./trend.ts";

export const KINDS = ["memory", "descriptors", "disk"] as const;
export type Kind = (typeof KINDS)[number];

export interface Series {
  readonly kind: Kind;
  /** Name of the process, which keeps it through restarts; for disk usage, the folder's. */
  readonly name: string;
  readonly samples: Sample[];
}

const EVERY_MS = 1_000;

export class Sampler {
  readonly series: Series[] = [];
  readonly #up: TuttiUp;
  readonly #startedMs: number;
  readonly #timer: NodeJS.Timeout;

  constructor(up: TuttiUp, startedMs: number) {
    this.#up = up;
    this.#startedMs = startedMs;
    this.#timer = setInterval(() => this.#look(), EVERY_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    const atS = (performance.now() - this.#startedMs) / 1_000;
    for (const pid of this.#up.processes()) {
      const [name, memory, descriptors] = [nameOf(pid, this.#up), memoryOf(pid), descriptorsOf(pid)];
      // Skip a process that is just ending, or has not executed its program yet.
      if (name === undefined || memory === 0 || descriptors === undefined) continue;
      this.#add("memory", name, { atS, value: memory });
      this.#add("descriptors", name, { atS, value: descriptors });
    }
    for (const { name, isDirectory } of entriesOf(this.#up.runDirectory))
      if (isDirectory)
        for (const inner of entriesOf(join(this.#up.runDirectory, name)))
          if (inner.isDirectory)
            this.#add("disk", inner.name, { atS, value: bytesBelow(join(this.#up.runDirectory, name, inner.name)) });
  }

  #add(kind: Kind, name: string, sample: Sample): void {
    let series = this.series.find((one) => one.kind === kind && one.name === name);
    if (series === undefined) this.series.push((series = { kind, name, samples: [] }));
    series.samples.push(sample);
  }
}

function nameOf(pid: number, up: TuttiUp): string | undefined {
  if (pid === up.pid) return "tutti up";
  const role = /(?:^|\0)TUTTI_PROCESS=([^\0]+)/.exec(textOf(`/proc/${pid}/environ`))?.[1];
  return role ?? (commandOf(pid).includes("nats-server") ? "nats-server" : undefined);
}

function textOf(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return ""; // it has ended
  }
}

function descriptorsOf(pid: number): number | undefined {
  try {
    return readdirSync(`/proc/${pid}/fd`).length;
  } catch {
    return undefined;
  }
}

function entriesOf(folder: string): { readonly name: string; readonly isDirectory: boolean }[] {
  try {
    return readdirSync(folder, { withFileTypes: true }).map((entry) => ({
      name: entry.name,
      isDirectory: entry.isDirectory(),
    }));
  } catch {
    return []; // files come and go
  }
}

function bytesBelow(folder: string): number {
  let bytes = 0;
  for (const { name, isDirectory } of entriesOf(folder)) {
    const path = join(folder, name);
    if (isDirectory) bytes += bytesBelow(path);
    else bytes += statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  }
  return bytes;
}
