/**
 * An executor that takes another's place on the same accelerator (a part of it, or the whole again): it loads and warms
 * up while the other one still serves, says that it could, and serves once it is let go. So at no moment do both run
 * batches of requests (docs/architecture.md, T4).
 */
export interface StandbyGateOptions {
  /** Called once, when everything is loaded that it is to serve. */
  readonly onLoaded: () => void;
  /** Called once it may serve. */
  readonly onReleased: () => void;
}

export class StandbyGate {
  readonly #options: StandbyGateOptions;
  #isLoaded = false;
  #isHeld = true;

  constructor(options: StandbyGateOptions) {
    this.#options = options;
  }

  get isHeld(): boolean {
    return this.#isHeld;
  }

  /** Whenever it may have changed whether it could serve. */
  look(couldServe: boolean): void {
    if (this.#isLoaded || !couldServe) return;
    this.#isLoaded = true;
    this.#options.onLoaded();
  }

  release(): void {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    this.#options.onReleased();
  }
}
