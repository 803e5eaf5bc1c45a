/** How far a long command is, on stderr: a bar that is drawn over itself on a terminal, nothing where there is none. */

/** Of a terminal, as far as it is needed. */
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

  /** @param total - how many there will be, or are expected to be; may change */
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

  /** A line that stays, on a terminal or not; the bar goes on below it. */
  line(text: string): void {
    this.end();
    this.#stream.write(`${text}\n`);
  }

  /** Leaves no trace of the bar. */
  end(): void {
    if (this.#drawnAt > -Infinity) this.#stream.write("\r\x1b[2K");
    this.#drawnAt = -Infinity;
  }
}

/** From what it took so far. */
function restOf(share: number, elapsedMs: number): string {
  if (share <= 0 || share >= 1) return "";
  const seconds = Math.ceil((elapsedMs * (1 / share - 1)) / 1000);
  return seconds < 90 ? `, about ${seconds} s left` : `, about ${Math.ceil(seconds / 60)} min left`;
}
