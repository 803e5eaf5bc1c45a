import { createHash } from "node:crypto";
import {
  BUCKET,
  type ModelRunTimes,
  type ModelSpec,
  type ModelStatus,
  PLACEMENT_KEY,
  type ParkedModel,
  Reservation,
  TuttiError,
  faultKeys,
  formNumberOf,
  isModelFaults,
  isModelName,
  isModelRunTimes,
  isModelSpec,
  isModelStatus,
  isPlacement,
  leaseKeys,
  publicNameOf,
  routeKeys,
  runTimesKeys,
  splitModelName,
  statusWith,
  versionName,
} from "@tutti/protocol";
import type { Store } from "@tutti/ports/store";
import { fromJson, newerForm, pack, readStored, writeStored } from "@tutti/wire";
import { absentModelError } from "./families.ts";
import { deleteEntry, deleteFile, getEntry, listEntries, putEntry, putFile, updateEntry } from "./store-calls.ts";
import { UnloadedModels } from "./unloaded-models.ts";

/** A model before the cluster assigns its number; without a `version` it gets the next one. */
export type DesiredModel = Omit<ModelSpec, "number" | "version" | "file" | "samples"> & { readonly version?: string };

export interface ModelFiles {
  /** The model itself; absent for an emulated one. */
  readonly model?: Uint8Array | undefined;
  /** Inputs to profile with, each one binary tensor message; random ones are used where there are none. */
  readonly samples?: readonly Uint8Array[] | undefined;
}

export interface ListedModel {
  readonly spec: ModelSpec;
  readonly status: ModelStatus | undefined;
  /** Set for a model that no executor serves until it is asked for; `next`: it is being loaded there. */
  readonly parked?: Pick<ParkedModel, "since" | "next">;
}

export interface ServedOptions {
  readonly timeoutMs: number;
  /** Called with each state up to and including the last one. */
  readonly onState?: (status: ModelStatus) => void;
  readonly signal?: AbortSignal;
}

const ATTEMPTS_MAX = 8;
/** States in which no actor serves the model. */
const GIVEN_UP: ReadonlySet<ModelStatus["state"]> = new Set<ModelStatus["state"]>(["refused", "failed", "quarantined"]);

/**
 * The models that a cluster is asked to serve, as the buckets of the store hold them (docs/architecture.md, 7).
 *
 * A model's number is the revision of a reservation in the bucket of models: revisions are never given twice, so
 * neither are numbers. A changed model gets a new number, so that no thread ever mixes rows of the old layout with rows
 * of the new one.
 */
export class ModelRegistry {
  readonly #store: Store;
  readonly #unloaded: UnloadedModels;

  constructor(store: Store) {
    this.#store = store;
    this.#unloaded = new UnloadedModels(store);
  }

  /**
   * Asks the cluster to serve `draft`; the same model and files again change nothing but a quarantine, which they lift.
   * Files are stored first, under their sha256.
   */
  async publish(draft: DesiredModel, files: ModelFiles = {}): Promise<ModelSpec> {
    if (!isModelName(draft.name)) {
      const rule = 'letters, digits, "-" and "_", at most 64, starting with a letter or digit';
      throw new TuttiError("TUTTI_INVALID_INPUT", `"${draft.name}" is no name for a model: ${rule}`);
    }
    checkNamesWithin(draft);
    const file = files.model === undefined ? undefined : await this.#storeFile(files.model);
    const samples = files.samples === undefined ? undefined : await this.#storeFile(pack(files.samples));
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      const entry = await getEntry(this.#store, BUCKET.models, draft.name);
      const known = entry === undefined ? undefined : readSpec(entry.value);
      const version = draft.version ?? (known === undefined ? "1" : known.version);
      const wanted = { ...draft, version, ...(file && { file }), ...(samples && { samples: samples.object }) };
      if (known !== undefined && equalBut(known, wanted)) {
        await this.#release(known);
        return known;
      }
      if (known !== undefined && draft.version === undefined) await this.#checkUnrouted(draft.name);
      const beside = await this.#versionsBeside(draft.name);
      if (draft.version !== undefined && beside.has(draft.version))
        throw invalid(`version ${draft.version} of "${draft.name}" is there already, beside the one of that name`);
      const next = draft.version ?? nextVersion(known, beside);
      const spec = await this.#write({ ...wanted, version: next }, known === undefined ? undefined : entry?.revision);
      if (spec === undefined) continue;
      await this.forget(publicNameOf(spec.name)); // what was unloaded before comes back no more
      return spec;
    }
    throw new TuttiError("TUTTI_UNAVAILABLE", `others keep changing ${draft.name} at the same time; try again`);
  }

  /**
   * Asks the cluster to serve a version beside those that are there. It is served as `name/version`, or under the
   * model's own name if that is free or has this very version. It gets no requests until a request names it or a route
   * gives it a share (RouteRegistry).
   */
  async publishVersion(draft: DesiredModel & { readonly version: string }, files: ModelFiles = {}): Promise<ModelSpec> {
    const { name, version } = draft;
    const first = await this.get(name);
    const isFirst = first === undefined ? (await this.#versionsBeside(name)).size === 0 : first.version === version;
    return this.publish(isFirst ? draft : { ...draft, name: versionName(name, version) }, files);
  }

  /** Versions of `name` that are served as `name/version`. */
  async #versionsBeside(name: string): Promise<ReadonlySet<string>> {
    const versions = new Set<string>();
    for (const { key } of await listEntries(this.#store, BUCKET.models)) {
      const { name: of, version } = splitModelName(key);
      if (of === name && version !== undefined) versions.add(version);
    }
    return versions;
  }

  /**
   * Rejects a model whose route names versions: replacing one would move its share, and its requests, to an untried
   * version.
   */
  async #checkUnrouted(name: string): Promise<void> {
    if ((await getEntry(this.#store, BUCKET.plan, routeKeys.model(name))) === undefined) return;
    throw invalid(
      `requests to "${name}" are shared between versions: load this one beside them with --version, or end that with \`tutti rollout ${name} --clear\``,
    );
  }

  /** Whether a model of this name was unloaded and is kept. */
  async isUnloaded(name: string): Promise<boolean> {
    return (await this.#unloaded.list(name)).length > 0;
  }

  /** Asks the cluster again to serve a model that was unloaded and kept, with all its versions. */
  async restore(name: string): Promise<void> {
    for (const kept of await this.#unloaded.list(name)) {
      const { number: _, ...model } = kept;
      const spec = await this.#write(model, undefined);
      await this.#unloaded.forget(model.name);
      if (spec === undefined) await this.#deleteFilesOf([kept]); // somebody has published that name: theirs stays
    }
  }

  /** Forgets a version that was unloaded and kept, or a model with all of them. @returns false when there was none */
  async forget(modelName: string): Promise<boolean> {
    const { name, version } = splitModelName(modelName);
    const found = (await this.#unloaded.list(name)).filter((one) => version === undefined || one.version === version);
    for (const spec of found) await this.#unloaded.forget(spec.name);
    await this.#deleteFilesOf(found);
    return found.length > 0;
  }

  /**
   * @param keep - whether it may be restored: its files stay
   * @returns false when there is no such model
   */
  async remove(name: string, keep = false): Promise<boolean> {
    const entry = await getEntry(this.#store, BUCKET.models, name);
    const spec = entry === undefined ? undefined : readSpec(entry.value);
    if (entry === undefined) return false;
    checkForm(entry.value);
    const gone = spec === undefined ? [] : keep ? await this.#unloaded.keep(spec) : [spec];
    await deleteEntry(this.#store, BUCKET.models, name);
    await deleteEntry(this.#store, BUCKET.profiles, name);
    if (spec !== undefined) {
      await this.#release(spec);
      await deleteEntry(this.#store, BUCKET.profiles, runTimesKeys.model(spec.number));
    }
    await this.#deleteFilesOf(gone);
    return spec !== undefined;
  }

  async #deleteFilesOf(gone: readonly ModelSpec[]): Promise<void> {
    if (gone.length === 0) return;
    const others = [...(await this.list()).map(({ spec }) => spec), ...(await this.#unloaded.list())];
    const kept = new Set(others.flatMap(objectsOf));
    for (const object of gone.flatMap(objectsOf)) if (!kept.has(object)) await deleteFile(this.#store, object);
  }

  /**
   * Clears the record of the model's faults on its executors, so that it is loaded and served again.
   *
   * @returns false when it was not quarantined
   */
  async release(name: string): Promise<boolean> {
    const spec = await this.get(name);
    if (spec === undefined) throw await absentModelError(this, name);
    return this.#release(spec);
  }

  async #release({ number }: ModelSpec): Promise<boolean> {
    const entry = await getEntry(this.#store, BUCKET.profiles, faultKeys.model(number));
    if (entry === undefined) return false;
    await deleteEntry(this.#store, BUCKET.profiles, faultKeys.model(number));
    return (readStored(entry.value, isModelFaults)?.quarantined ?? "") !== "";
  }

  /** All models, by name. */
  async list(): Promise<ListedModel[]> {
    const [models, profiles, parked] = await Promise.all([
      listEntries(this.#store, BUCKET.models),
      listEntries(this.#store, BUCKET.profiles),
      this.#parked(),
    ]);
    const statuses = new Map(profiles.map((entry) => [entry.key, readStored(entry.value, isModelStatus)]));
    const faults = new Map(profiles.map((entry) => [entry.key, readStored(entry.value, isModelFaults)]));
    return models
      .map((entry) => readSpec(entry.value))
      .filter((spec) => spec !== undefined)
      .map((spec) => {
        const status = matching(spec, statuses.get(spec.name));
        const mark = parked.get(spec.number);
        const listed = { spec, status: statusWith(spec, status, faults.get(faultKeys.model(spec.number))) };
        return { ...listed, ...(mark !== undefined && { parked: mark }) };
      })
      .sort((a, b) => (a.spec.name < b.spec.name ? -1 : 1));
  }

  /** Models that have left their executors, by number. */
  async #parked(): Promise<ReadonlyMap<number, ParkedModel>> {
    const entry = await getEntry(this.#store, BUCKET.plan, PLACEMENT_KEY);
    const placement = entry === undefined ? undefined : readStored(entry.value, isPlacement);
    const served = new Set(placement?.models.map(({ number }) => number));
    const marks = placement?.parked?.filter(({ number }) => !served.has(number)) ?? [];
    return new Map(marks.map((mark) => [mark.number, mark]));
  }

  /** @returns undefined also where `name` can be no model's: the store would refuse it as a key */
  async get(name: string): Promise<ModelSpec | undefined> {
    if (!isModelName(name)) return undefined;
    const entry = await getEntry(this.#store, BUCKET.models, name);
    return entry === undefined ? undefined : readSpec(entry.value);
  }

  /** The model's status as the profiler has published it; undefined until then. */
  async status(spec: ModelSpec): Promise<ModelStatus | undefined> {
    const entry = await getEntry(this.#store, BUCKET.profiles, spec.name);
    return entry === undefined ? undefined : matching(spec, readStored(entry.value, isModelStatus));
  }

  /** Run times of the model's requests in isolation, and what live runs have taught; undefined until it has run. */
  async runTimes({ number, version }: ModelSpec): Promise<ModelRunTimes | undefined> {
    const entry = await getEntry(this.#store, BUCKET.profiles, runTimesKeys.model(number));
    const times = entry === undefined ? undefined : readStored(entry.value, isModelRunTimes);
    return times?.version === version ? times : undefined;
  }

  /**
   * Resolves with the status `refused`, `failed` or `quarantined`, or with `ready` once a batcher has the model too.
   * From then on requests are answered. Rejects when none of that comes in time.
   */
  waitUntilServed(spec: ModelSpec, options: ServedOptions): Promise<ModelStatus> {
    return new Promise((resolve, reject) => {
      let last: ModelStatus | undefined;
      let leased = false;
      const end = (settle: () => void): void => {
        clearTimeout(timer);
        options.signal?.removeEventListener("abort", onAbort);
        queueMicrotask(() => watches.forEach((watch) => watch.stop()));
        settle();
      };
      const fail = (error: TuttiError): void => end(() => reject(error));
      const look = (): void => {
        const state = last?.state;
        if ((state !== undefined && GIVEN_UP.has(state)) || (state === "ready" && leased)) end(() => resolve(last!));
      };
      const onAbort = (): void => fail(new TuttiError("TUTTI_CANCELLED", `stopped waiting for ${spec.name}`));
      const timer = setTimeout(() => fail(tooLate(spec, options.timeoutMs, last)), options.timeoutMs);
      options.signal?.addEventListener("abort", onAbort, { once: true });
      const watch = (bucket: string, key: string, onValue: (value: Uint8Array) => void): { stop(): void } =>
        this.#store.watch(bucket, key, {
          onEntry: (entry) => {
            if (entry.key === key) onValue(entry.value);
            look();
          },
          onDelete: () => undefined,
          onReady: () => undefined,
          onFailure: ({ failure }) => fail(new TuttiError("TUTTI_UNAVAILABLE", `watching ${spec.name}: ${failure}`)),
        });
      const watches = [
        watch(BUCKET.profiles, spec.name, (value) => {
          const status = matching(spec, readStored(value, isModelStatus));
          if (status === undefined) return;
          last = status;
          options.onState?.(status);
        }),
        watch(BUCKET.profiles, faultKeys.model(spec.number), (value) => {
          const status = statusWith(spec, undefined, readStored(value, isModelFaults));
          if (status === undefined) return;
          last = status;
          options.onState?.(status);
        }),
        watch(BUCKET.leases, leaseKeys.model(spec.number), () => (leased = true)),
      ];
    });
  }

  async #storeFile(bytes: Uint8Array): Promise<NonNullable<ModelSpec["file"]>> {
    const sha256 = createHash("sha256").update(bytes).digest("hex");
    const object = `sha256-${sha256}`;
    await putFile(this.#store, object, bytes);
    return { object, sha256, bytes: bytes.byteLength };
  }

  /** @returns undefined when someone else changed the entry meanwhile */
  async #write(model: Omit<ModelSpec, "number">, revision: number | undefined): Promise<ModelSpec | undefined> {
    const { name } = model;
    if (revision === undefined) {
      // New: the reservation is the key's own first entry. It has no inputs yet, so that no reader takes it for a
      // model.
      const number = await updateEntry(this.#store, BUCKET.models, name, { value: RESERVATION, revision: 0 });
      if (number === undefined) return this.#takeOver(model);
      return this.#commit({ ...model, number }, number);
    }
    // Changed: reserved beside it, so that the model which is served now survives a crash between the two writes.
    const number = await putEntry(this.#store, BUCKET.models, `number.${name}`, RESERVATION);
    await deleteEntry(this.#store, BUCKET.models, `number.${name}`);
    return this.#commit({ ...model, number }, revision);
  }

  /**
   * Writes over another client's reservation, whose owner may have died before writing the model: compare-and-set
   * decides.
   */
  async #takeOver(model: Omit<ModelSpec, "number">): Promise<ModelSpec | undefined> {
    const entry = await getEntry(this.#store, BUCKET.models, model.name);
    if (entry === undefined || readSpec(entry.value) !== undefined) return undefined;
    checkForm(entry.value);
    return this.#commit({ ...model, number: entry.revision }, entry.revision);
  }

  async #commit(spec: ModelSpec, revision: number): Promise<ModelSpec | undefined> {
    const written = await updateEntry(this.#store, BUCKET.models, spec.name, {
      value: writeStored(isModelSpec, spec),
      revision,
    });
    return written === undefined ? undefined : spec;
  }
}

const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
/** Tensors and axes are keys of objects, and no object can have this one. @throws {TuttiError} INVALID_INPUT */
function checkNamesWithin({ inputs, outputs, constants }: DesiredModel): void {
  const names = [...inputs, ...outputs, ...constants].flatMap(({ name, dims }) => [name, ...dims]);
  if (names.includes("__proto__")) throw invalid('a tensor or an axis can\'t be called "__proto__": rename it');
}
/** @throws {TuttiError} INVALID_INPUT the entry is a newer release's (STORED-4) */
function checkForm(value: Uint8Array): void {
  const newer = newerForm(value, isModelSpec);
  if (newer !== undefined) throw invalid(newer);
}
const objectsOf = ({ file, samples }: ModelSpec): string[] =>
  [file?.object, samples].filter((object) => object !== undefined);

const RESERVATION = writeStored(Reservation, { reserved: true });

function readSpec(value: Uint8Array): ModelSpec | undefined {
  try {
    const { form, ...spec } = fromJson(value) as ModelSpec & { readonly form?: unknown };
    const isKnown = formNumberOf({ form: form ?? 1 }) <= isModelSpec.formNumber;
    return isKnown && Array.isArray(spec.inputs) && Number.isSafeInteger(spec.number) ? spec : undefined;
  } catch {
    return undefined; // not ours to repair: the actors report entries that can't be read
  }
}

/** A status of an earlier number or version says nothing about this one. */
const matching = (spec: ModelSpec, status: ModelStatus | undefined): ModelStatus | undefined =>
  status !== undefined && status.number === spec.number && status.version === spec.version ? status : undefined;

function nextVersion(known: ModelSpec | undefined, beside: ReadonlySet<string>): string {
  const number = Number(known?.version ?? 0);
  if (!Number.isSafeInteger(number)) return `${known?.version}+1`;
  let next = number + 1;
  while (beside.has(String(next))) next++;
  return String(next);
}

/** Two specs that differ in nothing but the number and the order of their keys. */
function equalBut(known: ModelSpec, wanted: Omit<ModelSpec, "number">): boolean {
  const { number: _, ...rest } = known;
  return canonical(rest) === canonical(wanted);
}

const canonical = (value: unknown): string =>
  JSON.stringify(value, (_key, part: unknown) =>
    typeof part === "object" && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );

function tooLate(spec: ModelSpec, timeoutMs: number, last: ModelStatus | undefined): TuttiError {
  const state =
    last === undefined
      ? "it is being loaded or measured, which takes long where its runs do (`tutti models` shows when it ends), or no executor and profiler run (`tutti actors`)"
      : last.state === "ready"
        ? "no batcher has taken it (does one run?)"
        : `it is still ${last.state}`;
  return new TuttiError("TUTTI_NOT_READY", `${spec.name} is not served after ${timeoutMs / 1000} s: ${state}`);
}
