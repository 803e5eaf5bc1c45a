import type { RunListener, Scenario, SimRequest } from "@tutti/simulator";
import { Progress } from "./progress.ts";

/**
 * Number of requests between two readings of the clock, a twentieth of a second. Reading it at each request would cost
 * more than scheduling one.
 */
const REQUESTS_BETWEEN_LOOKS = 16_384;

/** Progress of one simulation. It is undefined without a terminal, so that such a run processes no events for it. */
export class RunProgress implements RunListener {
  readonly #progress = new Progress();
  readonly #duration: number;
  #requests = 0;

  private constructor(duration: number) {
    this.#duration = duration;
  }

  static of({ duration }: Scenario): RunProgress | undefined {
    return process.stderr.isTTY ? new RunProgress(duration) : undefined;
  }

  arrived({ arrivedAt }: SimRequest): void {
    if (++this.#requests % REQUESTS_BETWEEN_LOOKS !== 0) return;
    const done = Math.floor((100 * arrivedAt) / this.#duration);
    this.#progress.update({ done, total: 100, note: `${this.#requests.toLocaleString("en-US")} requests` });
  }

  refused(): void {}
  finished(): void {}

  end(): void {
    this.#progress.end();
  }
}
