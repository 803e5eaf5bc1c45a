import { explain } from "@tutti/admin";
import { durationText } from "@tutti/admin/jobs";
import { printable } from "@tutti/units";

export interface JobFailure {
  readonly path: string;
  readonly code: string;
  readonly text: string;
}

type ProgressOutput = Pick<NodeJS.WriteStream, "isTTY" | "write">;

const EVERY_MS = 500;
const EVERY_ELSEWHERE_MS = 30_000;

/** Shows the progress of a submission: one line that changes on a terminal, and a line now and then elsewhere. */
export class JobProgress {
  readonly counts = { files: 0, submitted: 0, found: 0, done: 0 };
  readonly failures: JobFailure[] = [];
  readonly #output: ProgressOutput;
  readonly #startedAt = performance.now();
  #timer: NodeJS.Timeout | undefined;
  #hasLine = false;
  /** Why no further job is taken at the moment. */
  #waitsFor: string | undefined;
  #told: { readonly reason: string; readonly atMs: number } | undefined;

  /** @param mode - "reasons": tells only why it waits */
  constructor(files: number, mode: "shown" | "reasons", output: ProgressOutput = process.stderr) {
    this.counts.files = files;
    this.#output = output;
    if (mode === "reasons") return;
    this.#timer = setInterval(() => this.#show(), output.isTTY ? EVERY_MS : EVERY_ELSEWHERE_MS);
  }

  submitted(): void {
    this.counts.submitted++;
    this.#waitsFor = undefined;
  }
  /** The queue takes no job now, and is asked again. */
  waits(reason: string): void {
    this.#waitsFor = printable(reason);
    if (this.#timer !== undefined && this.#output.isTTY) return; // its line has it
    const nowMs = performance.now();
    if (this.#told?.reason === reason || nowMs - (this.#told?.atMs ?? -Infinity) < EVERY_ELSEWHERE_MS) return;
    this.#told = { reason, atMs: nowMs };
    this.#output.write(`tutti: waits: ${printable(reason)}\n`);
  }
  /** Its result was in the folder. */
  found(): void {
    this.counts.found++;
  }
  done(): void {
    this.counts.done++;
  }

  /** Runs a step of one file; its failure is kept, and others go on. */
  async watch<T>(path: string, step: () => Promise<T>): Promise<T | "failed"> {
    try {
      return await step();
    } catch (error) {
      const { code, text } = explain(error);
      this.failures.push({ path, code, text });
      return "failed";
    }
  }

  end(): void {
    clearInterval(this.#timer);
    if (this.#hasLine) this.#output.write("\n");
    this.#hasLine = false;
  }

  text(nowMs: number): string {
    const { files, submitted, found, done } = this.counts;
    const perSecond = done / Math.max(0.001, (nowMs - this.#startedAt) / 1_000);
    const parts = [`${submitted + found} of ${files} submitted`, `${done + found} done`];
    if (this.failures.length > 0) parts.push(`${this.failures.length} failed`);
    const left = files - found - done - this.failures.length;
    if (done > 0 && left > 0) parts.push(`${perSecond.toFixed(1)}/s, ${durationText(left / perSecond)} left`);
    if (this.#waitsFor !== undefined) parts.push(`waits: ${this.#waitsFor}`);
    return parts.join(" · ");
  }

  #show(): void {
    const text = this.text(performance.now());
    if (!this.#output.isTTY) return void this.#output.write(`${text}\n`);
    this.#output.write(`\r\u001b[K${text}`);
    this.#hasLine = true;
  }
}
