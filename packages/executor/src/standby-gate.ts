/**
 * Holds an executor back that takes another's place on the same accelerator (a fraction of it, or the whole again). It
 * loads and warms up while the other one still serves, says that it could serve, and serves once it is released. So at
 * no moment do both run batches of requests (docs/architecture.md, T4).
 */
export interface StandbyGateOptions {
  /** Called once, when all the models that it is to serve are loaded. */
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

  /** Called whenever the executor's ability to serve may have changed. */
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
