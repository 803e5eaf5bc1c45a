import type { RunListener, Scenario, SimRequest } from "@tutti/simulator";
import { Progress } from "./progress.ts";

/** Reading the clock at every request would cost more than scheduling it; this is a twentieth of a second. */
const REQUESTS_BETWEEN_LOOKS = 16_384;

/** How far one simulation is; undefined where nobody watches, so that nothing is heard for nothing. */
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
