/** The last lines of each process, kept in memory for operators: bounded by lines and by bytes, and without secrets. */
import { LOG_LINE_LENGTH_MAX, type LogLine } from "@tutti/protocol";
import { redactText } from "@tutti/telemetry-otel";
import type { Instant } from "@tutti/units";

/** Bounds for each process: one line every two seconds for an hour, and at most 1 MB (T7). */
const LINES_MAX = 2_000;
const LENGTH_MAX = 1_000_000;

interface Pages {
  lines: LogLine[];
  length: number;
  /** Number of lines dropped so far. */
  gone: number;
}

export type LogListener = (process: string, line: LogLine) => void;

export class ProcessLog {
  readonly #pages = new Map<string, Pages>();
  readonly #listeners = new Set<LogListener>();
  readonly #now: () => Instant;

  constructor(now: () => Instant = () => (Date.now() * 1_000) as Instant) {
    this.#now = now;
  }

  add(process: string, text: string): void {
    let pages = this.#pages.get(process);
    if (pages === undefined) this.#pages.set(process, (pages = { lines: [], length: 0, gone: 0 }));
    const line = { at: this.#now(), text: redactText(text).slice(0, LOG_LINE_LENGTH_MAX) };
    pages.lines.push(line);
    pages.length += line.text.length;
    // Drop a quarter at once: dropping one line for each new one would move all the others each time.
    if (pages.lines.length > LINES_MAX || pages.length > LENGTH_MAX) letGo(pages);
    for (const listener of this.#listeners) listener(process, line);
  }

  /** @returns the kept lines from `from` on, and how many lines of that time may be missing */
  since(process: string, from: Instant): { readonly lines: readonly LogLine[]; readonly left: number } {
    const pages = this.#pages.get(process);
    if (pages === undefined) return { lines: [], left: 0 };
    const [oldest] = pages.lines;
    const isWhole = oldest === undefined || oldest.at < from;
    return { lines: pages.lines.filter(({ at }) => at >= from), left: isWhole ? 0 : pages.gone };
  }

  listen(listener: LogListener): { stop(): void } {
    this.#listeners.add(listener);
    return { stop: () => void this.#listeners.delete(listener) };
  }
}

function letGo(pages: Pages): void {
  const going = pages.lines.splice(0, Math.ceil(pages.lines.length / 4));
  for (const { text } of going) pages.length -= text.length;
  pages.gone += going.length;
}
