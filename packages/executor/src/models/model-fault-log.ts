import type { Clock } from "@tutti/ports/clock";
import {
  BUCKET,
  type ModelFaults,
  type ModelSpec,
  STRIKES_MAX,
  type Strike,
  faultKeys,
  isModelFaults,
  withStrike,
} from "@tutti/protocol";
import { type Store, isStoreFailure } from "@tutti/ports/store";
import type { Logger } from "@tutti/ports/telemetry";
import { type Instant, after, millis } from "@tutti/units";
import { newerForm, readStored, writeStored } from "@tutti/wire";
import type { LastRun } from "../executor.ts";

type ModelId = Pick<ModelSpec, "name" | "number">;

/** Attempts at a write that conflicted with others, or that failed in the store. */
const ATTEMPTS_MAX = 20;
const TRY_AGAIN = millis(100);

/** Records the faults of models in the store, by compare-and-set, so that executors on many hosts count alike. */
export class ModelFaultLog {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #clearing = new Set<number>();

  constructor(options: { readonly store: Store; readonly clock: Clock; readonly log: Logger }) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#log = options.log;
  }

  /**
   * Records one fault. `done` is called once, also when it could not be written.
   *
   * @param quarantined - why the model is quarantined at once; undefined: it is after STRIKES_MAX faults
   */
  record(model: ModelId, strike: Omit<Strike, "at">, done: () => void, quarantined?: string): void {
    const change = (faults: ModelFaults | undefined): ModelFaults | undefined =>
      withStrike(model, faults, { ...strike, at: this.#clock.now() }, quarantined);
    this.#change(model.number, change, (outcome) => {
      const { doing, how, gpu } = strike;
      const about = { model: model.name, doing, how, gpu };
      if (outcome === "failed") this.#log.warn(about, "a model ended its executor, and that can't be written down");
      else if (outcome === undefined) this.#log.warn(about, "a model ended its executor, which changes nothing");
      else if (outcome.quarantined !== "") this.#log.error({ ...about, reason: outcome.quarantined }, "quarantined");
      else this.#log.warn({ ...about, times: outcome.strikes.length, of: STRIKES_MAX }, "a model ended its executor");
      done();
    });
  }

  /** Records the faults left behind by crashed predecessors, one after the other. */
  confess(left: readonly LastRun[], host: string, then: () => void): void {
    const [last, ...rest] = left;
    if (last === undefined) return then();
    const { model, executor, gpu, doing, how, startedAt } = last;
    this.record(model, { executor, host, gpu, doing, how, startedAt }, () => {
      last.forget();
      this.confess(rest, host, then);
    });
  }

  /** Clears the faults before a run that ended well: they no longer count as consecutive. */
  clear(model: ModelId, startedAt: Instant): void {
    if (this.#clearing.has(model.number)) return;
    this.#clearing.add(model.number);
    const change = (faults: ModelFaults | undefined): ModelFaults | undefined => {
      if (faults === undefined || faults.quarantined !== "") return undefined;
      const strikes = faults.strikes.filter(({ at }) => at > startedAt);
      return strikes.length === faults.strikes.length ? undefined : { ...faults, strikes };
    };
    this.#change(model.number, change, () => this.#clearing.delete(model.number));
  }

  #change(
    number: number,
    change: (faults: ModelFaults | undefined) => ModelFaults | undefined,
    done: (outcome: ModelFaults | undefined | "failed") => void,
    attempt = 1,
  ): void {
    const key = faultKeys.model(number);
    const again = (delayed: boolean): void => {
      if (attempt >= ATTEMPTS_MAX) return done("failed");
      const next = (): void => this.#change(number, change, done, attempt + 1);
      if (!delayed) return next();
      this.#clock.alarm(next).set(after(this.#clock.now(), TRY_AGAIN));
    };
    this.#store.get(BUCKET.profiles, key, (entry) => {
      if (isStoreFailure(entry)) return again(true);
      // An unreadable entry counts as absent, and is overwritten; one of a newer form is another's decision (STORED-4).
      const newer = entry === "absent" ? undefined : newerForm(entry.value, isModelFaults);
      if (newer !== undefined) {
        this.#log.warn({ key, why: newer }, "the faults of a model are left as they are");
        return done(undefined);
      }
      const faults = entry === "absent" ? undefined : readStored(entry.value, isModelFaults);
      const changed = change(faults);
      if (changed === undefined) return done(undefined);
      const revision = entry === "absent" ? 0 : entry.revision;
      this.#store.update(BUCKET.profiles, key, writeStored(isModelFaults, changed), revision, (result) => {
        if (result === "conflict") again(false);
        else if (isStoreFailure(result)) again(true);
        else done(changed);
      });
    });
  }
}
