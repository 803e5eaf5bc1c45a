import type { Clock } from "@tutti/ports/clock";
import type { Engine, LoadOutcome } from "@tutti/ports/engine";
import { type ModelReported, type ModelSpec, memoryOf } from "@tutti/protocol";
import { type Store, isStoreFailure } from "@tutti/ports/store";
import type { Logger } from "@tutti/ports/telemetry";
import { type Instant, NEVER, after, millis } from "@tutti/units";
import type { CatalogModel } from "@tutti/actors/runtime";
import type { SampleRows } from "../measurement/sample-rows.ts";
import { runWarm, sampleInputs } from "./warm-runs.ts";

export type ModelReport = Pick<ModelReported, "model" | "number" | "version" | "state" | "reason" | "memoryBytes">;

export interface ModelLoaderOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly engines: readonly (Engine & { runBytesOf?(model: string): number | undefined })[];
  readonly log: Logger;
  readonly samples: Pick<SampleRows, "rows" | "whenRead">;
  readonly report: (report: ModelReport) => void;
  /** Loading began or ended. While it lasts, the accelerators can't keep their times. */
  readonly onBusy: (busy: boolean) => void;
}

/** Delay after the first failed load; it doubles with each failure. */
const RETRY_FIRST = millis(1_000);
const RETRY_DOUBLINGS_MAX = 5;

interface Failure {
  readonly model: CatalogModel;
  readonly report: ModelReport;
  readonly attempts: number;
  readonly retryAt: Instant;
  /** The store did not answer, which says nothing about the model. */
  readonly isTransient: boolean;
  /** The load was not tried, since there is no room. */
  readonly isRefused?: boolean;
}

/**
 * Keeps the loaded models equal to what the catalog wants. It loads one model at a time, in order, so that loading
 * never crowds out running.
 */
export class ModelLoader {
  readonly #options: ModelLoaderOptions;
  readonly #loaded = new Map<string, { readonly model: CatalogModel; readonly report: ModelReport }>();
  readonly #failed = new Map<string, Failure>();
  readonly #wanted = new Map<string, CatalogModel>();
  readonly #unwanted: string[] = [];
  #working = false;
  #loading: CatalogModel | undefined;
  #onIdle: (() => void) | undefined;

  constructor(options: ModelLoaderOptions) {
    this.#options = options;
  }

  /** The loaded model, if it is the version that the catalog names. */
  get(name: string): CatalogModel | undefined {
    return this.#loaded.get(name)?.model;
  }
  /** Whether the model is loaded, or being loaded. */
  holds(spec: ModelSpec): boolean {
    const model = this.#loaded.get(spec.name)?.model ?? this.#wanted.get(spec.name);
    return (model !== undefined && sameModel(model.spec, spec)) || this.#loading?.spec.name === spec.name;
  }
  /** Memory of a loaded model on each accelerator: as declared, or as measured if that is more. */
  memoryOf(name: string): number | undefined {
    const held = this.#loaded.get(name);
    if (held === undefined) return undefined;
    return Math.max(memoryOf(held.model.spec), Math.round(held.report.memoryBytes / this.#options.engines.length));
  }
  /** Memory that runs of a loaded model take besides, on the accelerator where it is most; undefined: not measured. */
  dynamicOf(name: string): number | undefined {
    let most: number | undefined;
    for (const engine of this.#options.engines) {
      const bytes = engine.runBytesOf?.(name);
      if (bytes !== undefined) most = Math.max(most ?? 0, Math.round(bytes));
    }
    return most;
  }
  loaded(): CatalogModel[] {
    return [...this.#loaded.values()].map(({ model }) => model);
  }
  /** Reports of all models that are loaded or could not be loaded. */
  reports(): ModelReport[] {
    const failed = [...this.#failed.values()].filter(({ isTransient }) => !isTransient);
    return [...this.#loaded.values(), ...failed].map(({ report }) => report);
  }

  want(model: CatalogModel): void {
    const { name } = model.spec;
    const unwanted = this.#unwanted.indexOf(name);
    if (unwanted >= 0) this.#unwanted.splice(unwanted, 1);
    const held = this.#loaded.get(name);
    if (held !== undefined && sameModel(held.model.spec, model.spec)) {
      this.#loaded.set(name, { model, report: held.report });
      return;
    }
    if (this.#loading !== undefined && sameModel(this.#loading.spec, model.spec)) {
      // Its lease or its profile may change while it is loaded, which is no reason to load it again.
      this.#loading = model;
      this.#wanted.delete(name);
      return;
    }
    const failed = this.#failed.get(name);
    if (failed !== undefined && failed.isRefused !== true && sameModel(failed.model.spec, model.spec)) {
      this.#failed.set(name, { ...failed, model });
      return; // `retry` decides when to load it.
    }
    this.#failed.delete(name);
    this.#wanted.set(name, model);
    this.#next();
  }
  /** Refuses a model that has no room here. The refusal is reported once, and again by `reports`. */
  refuse(model: CatalogModel, reason: string): void {
    const { name, number, version } = model.spec;
    const known = this.#failed.get(name);
    if (known?.isRefused === true && sameModel(known.model.spec, model.spec)) {
      this.#failed.set(name, { ...known, model });
      return;
    }
    this.#wanted.delete(name);
    const report: ModelReport = { model: name, number, version, state: "failed", reason, memoryBytes: 0 };
    this.#failed.set(name, { model, report, attempts: 1, retryAt: NEVER, isTransient: false, isRefused: true });
    this.#options.log.warn({ model: name, reason }, "a model is not loaded");
    this.#options.report(report);
  }
  drop(name: string): void {
    this.#wanted.delete(name);
    this.#failed.delete(name);
    if (!this.#loaded.has(name) && this.#loading?.spec.name !== name) return;
    this.#unwanted.push(name);
    this.#next();
  }
  /**
   * Retries failed loads that are due, at intervals. A model that is served elsewhere, or whose file could not be
   * fetched, may be loaded after all.
   */
  retry(): void {
    const now = this.#options.clock.now();
    for (const { model, retryAt, isTransient } of this.#failed.values()) {
      if (now < retryAt || !(isTransient || model.status?.state === "ready")) continue;
      if (this.#loading?.spec.name === model.spec.name) continue;
      if (!this.#wanted.has(model.spec.name)) this.#wanted.set(model.spec.name, model);
    }
    this.#next();
  }
  whenIdle(done: () => void): void {
    if (this.#working) this.#onIdle = done;
    else done();
  }

  #next(): void {
    if (this.#working) return;
    const drop = this.#unwanted.shift();
    if (drop !== undefined) return this.#unload(drop);
    const [model] = this.#wanted.values();
    if (model !== undefined) return this.#load(model);
    this.#onIdle?.();
    this.#onIdle = undefined;
  }

  #begin(): void {
    this.#working = true;
    this.#options.onBusy(true);
  }
  #end(): void {
    this.#working = false;
    this.#loading = undefined;
    this.#options.onBusy(false);
    this.#next();
  }

  #load(model: CatalogModel): void {
    const { spec } = model;
    this.#begin();
    this.#wanted.delete(spec.name);
    this.#loading = model;
    const finish = (outcome: LoadOutcome, isTransient = false): void => {
      const latest = this.#loading ?? model;
      const report: ModelReport = {
        model: spec.name,
        number: spec.number,
        version: spec.version,
        state: outcome.kind,
        reason: outcome.kind === "failed" ? outcome.reason : "",
        memoryBytes: outcome.kind === "failed" ? 0 : outcome.memoryBytes,
      };
      if (outcome.kind === "failed") this.#noteFailure(latest, report, isTransient);
      else {
        this.#failed.delete(spec.name);
        this.#loaded.set(spec.name, { model: latest, report });
      }
      if (!isTransient) this.#options.report(report);
      this.#end();
    };
    const load = (bytes: Uint8Array | undefined): void =>
      this.#loadOn(0, model, bytes, (outcome) => {
        // A model without measurements is warmed up by being measured.
        if (outcome.kind === "failed" || model.status?.state !== "ready") finish(outcome);
        else this.#warm(0, spec, () => finish(outcome));
      });
    if (spec.file === undefined) return load(undefined);
    this.#options.store.files.get(spec.file.object, (result) => {
      if (result === "absent")
        finish({ kind: "failed", reason: `its file ${spec.file?.object} is not in the store: load it again` });
      else if (isStoreFailure(result))
        finish({ kind: "failed", reason: `its file can't be fetched: ${result.failure}` }, true);
      else this.#options.samples.whenRead(spec, () => load(result.bytes));
    });
  }

  #noteFailure(model: CatalogModel, report: ModelReport, isTransient: boolean): void {
    const { name } = model.spec;
    const attempts = (this.#failed.get(name)?.attempts ?? 0) + 1;
    const wait = RETRY_FIRST * 2 ** Math.min(attempts - 1, RETRY_DOUBLINGS_MAX);
    const retryAt = after(this.#options.clock.now(), wait as typeof RETRY_FIRST);
    this.#loaded.delete(name);
    this.#failed.set(name, { model, report, attempts, retryAt, isTransient });
    this.#options.log.warn({ model: name, reason: report.reason, attempts }, "a model can't be loaded");
  }

  #loadOn(
    index: number,
    model: CatalogModel,
    bytes: Uint8Array | undefined,
    done: (outcome: LoadOutcome) => void,
    memory = 0,
  ): void {
    const engine = this.#options.engines[index];
    if (engine === undefined) return done({ kind: "loaded", memoryBytes: memory });
    const { spec } = model;
    const rows = spec.family === undefined ? this.#options.samples.rows(spec.name, 0) : [];
    engine.load({ spec, bytes, ...(rows.length > 1 && { samples: sampleInputs(spec, rows) }) }, (outcome) => {
      if (outcome.kind === "failed") done(outcome);
      else this.#loadOn(index + 1, model, bytes, done, memory + outcome.memoryBytes);
    });
  }

  #warm(index: number, spec: ModelSpec, done: () => void): void {
    const engine = this.#options.engines[index];
    if (engine === undefined) return done();
    const next = (): void => this.#warm(index + 1, spec, done);
    if (engine.cold !== true) return next();
    const samplesOf = (bucket: number): readonly Uint8Array[] => this.#options.samples.rows(spec.name, bucket);
    runWarm({ engine, spec, samplesOf, done: next });
  }

  #unload(name: string): void {
    const held = this.#loaded.get(name);
    this.#loaded.delete(name);
    if (held === undefined) return this.#next();
    this.#begin();
    let left = this.#options.engines.length;
    for (const engine of this.#options.engines) {
      engine.unload(name, () => {
        left--;
        if (left > 0) return;
        this.#options.report({ ...held.report, state: "unloaded", memoryBytes: 0 });
        this.#end();
      });
    }
  }
}

const sameModel = (a: ModelSpec, b: ModelSpec): boolean =>
  a.number === b.number && a.version === b.version && a.file?.sha256 === b.file?.sha256;
