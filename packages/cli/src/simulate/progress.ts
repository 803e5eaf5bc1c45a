/** Progress of a long command on stderr: a bar that is redrawn on a terminal, and nothing elsewhere. */

/** The part of a terminal's stream that a progress bar needs. */
export interface ProgressStream {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  write(text: string): unknown;
}

const BAR_WIDTH = 24;
const REDRAW_MS = 100;

export class Progress {
  readonly #stream: ProgressStream;
  readonly #now: () => number;
  readonly #startedAt: number;
  #drawnAt = -Infinity;

  constructor(stream: ProgressStream = process.stderr, now: () => number = () => performance.now()) {
    this.#stream = stream;
    this.#now = now;
    this.#startedAt = now();
  }

  /** @param total - the known or expected total; may change */
  update({ done, total, note }: { readonly done: number; readonly total: number; readonly note: string }): void {
    if (this.#stream.isTTY !== true) return;
    const now = this.#now();
    if (now - this.#drawnAt < REDRAW_MS && done < total) return;
    this.#drawnAt = now;
    const share = total > 0 ? Math.min(1, done / total) : 0;
    const filled = Math.round(share * BAR_WIDTH);
    const bar = "█".repeat(filled) + "░".repeat(BAR_WIDTH - filled);
    const text = `${bar} ${done}/${total}${restOf(share, now - this.#startedAt)}  ${note}`;
    this.#stream.write(`\r\x1b[2K${text.slice(0, (this.#stream.columns ?? 80) - 1)}`);
  }

  /** Writes a permanent line, on a terminal or not; the bar continues below it. */
  line(text: string): void {
    this.end();
    this.#stream.write(`${text}\n`);
  }

  /** Removes the bar. */
  end(): void {
    if (this.#drawnAt > -Infinity) this.#stream.write("\r\x1b[2K");
    this.#drawnAt = -Infinity;
  }
}

/** Extrapolates the remaining time from the elapsed time. */
function restOf(share: number, elapsedMs: number): string {
  if (share <= 0 || share >= 1) return "";
  const seconds = Math.ceil((elapsedMs * (1 / share - 1)) / 1000);
  return seconds < 90 ? `, about ${seconds} s left` : `, about ${Math.ceil(seconds / 60)} min left`;
}
