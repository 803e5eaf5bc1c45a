import type { Engine, LoadOutcome } from "@tutti/engine";
import { type ModelReported, type ModelSpec } from "@tutti/protocol";
import { type Store, isStoreFailure } from "@tutti/store";
import type { Logger } from "@tutti/telemetry";
import type { CatalogModel } from "../catalog.ts";

export type ModelReport = Pick<ModelReported, "model" | "number" | "version" | "state" | "reason" | "memoryBytes">;

export interface ModelKeeperOptions {
  readonly store: Store;
  readonly engines: readonly Engine[];
  readonly log: Logger;
  readonly report: (report: ModelReport) => void;
  /** Loading began or ended: while it lasts, the accelerators can't keep their times. */
  readonly onBusy: (busy: boolean) => void;
}

/** Keeps what is loaded equal to what the catalog wants: one model at a time, in order, so that loading never crowds out running. */
export class ModelKeeper {
  readonly #options: ModelKeeperOptions;
  readonly #loaded = new Map<string, { readonly model: CatalogModel; readonly report: ModelReport }>();
  readonly #wanted = new Map<string, CatalogModel>();
  readonly #unwanted: string[] = [];
  #working = false;
  #onIdle: (() => void) | undefined;

  constructor(options: ModelKeeperOptions) {
    this.#options = options;
  }

  /** The loaded model, if it is the version that the catalog speaks of. */
  get(name: string): CatalogModel | undefined {
    return this.#loaded.get(name)?.model;
  }
  reports(): ModelReport[] {
    return [...this.#loaded.values()].map(({ report }) => report);
  }

  want(model: CatalogModel): void {
    const held = this.#loaded.get(model.spec.name);
    if (held !== undefined && sameModel(held.model.spec, model.spec)) {
      this.#loaded.set(model.spec.name, { model, report: held.report });
      return;
    }
    this.#wanted.set(model.spec.name, model);
    this.#next();
  }
  drop(name: string): void {
    this.#wanted.delete(name);
    if (!this.#loaded.has(name)) return;
    this.#unwanted.push(name);
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
    this.#options.onBusy(false);
    this.#next();
  }

  #load(model: CatalogModel): void {
    const { spec } = model;
    this.#begin();
    this.#wanted.delete(spec.name);
    const finish = (outcome: LoadOutcome): void => {
      const failed = outcome.kind === "failed";
      const report: ModelReport = {
        model: spec.name,
        number: spec.number,
        version: spec.version,
        state: failed ? "failed" : "loaded",
        reason: failed ? outcome.reason : "",
        memoryBytes: failed ? 0 : outcome.memoryBytes,
      };
      if (failed) {
        this.#loaded.delete(spec.name);
        this.#options.log.warn({ model: spec.name, reason: outcome.reason }, "a model can't be loaded");
      } else this.#loaded.set(spec.name, { model, report });
      this.#options.report(report);
      this.#end();
    };
    if (spec.file === undefined) return this.#loadOn(0, model, undefined, finish);
    this.#options.store.files.get(spec.file.object, (result) => {
      if (result === "absent")
        finish({ kind: "failed", reason: `its file ${spec.file?.object} is not in the store: load it again` });
      else if (isStoreFailure(result))
        finish({ kind: "failed", reason: `its file can't be fetched: ${result.failure}` });
      else this.#loadOn(0, model, result.bytes, finish);
    });
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
    engine.load({ spec: model.spec, bytes }, (outcome) => {
      if (outcome.kind === "failed") done(outcome);
      else this.#loadOn(index + 1, model, bytes, done, memory + outcome.memoryBytes);
    });
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
