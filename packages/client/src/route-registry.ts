import {
  BUCKET,
  type ModelSpec,
  type Route,
  type RouteShadow,
  type RouteState,
  TuttiError,
  isRoute,
  isVersion,
  noModelError,
  percentOf,
  publicNameOf,
  routeKeys,
  splitModelName,
  stateBefore,
  stateOf,
  versionsOf,
  withDefault,
  withPercent,
  withState,
} from "@tutti/protocol";
import type { Store } from "@tutti/ports/store";
import { type Instant, type Micros, instant } from "@tutti/units";
import { newerForm, readStored, writeStored } from "@tutti/wire";
import { type ListedModel, ModelRegistry } from "./model-registry.ts";
import { rampSteps } from "./ramp-steps.ts";
import { deleteEntry, getEntry, listEntries, updateEntry } from "./store-calls.ts";

export interface RolloutOptions {
  readonly version: string;
  /** 0 … 100, of all requests that name no version. */
  readonly percent: number;
  /** Raises the share step by step, under the planner's control; without it the share changes at once. */
  readonly ramp?: {
    readonly over: Micros;
    /** Shares, 0 … 1: see RouteRamp. */
    readonly badMax: number;
    readonly mismatchMax: number;
  };
}

const ATTEMPTS_MAX = 8;

type Change = Omit<RouteState, "at" | "by">;

/**
 * Sets which version of a model gets which of its requests (docs/rollouts.md), by compare-and-set. The loser of a race
 * reads again and retries. Every change is checked against the loaded versions, and refused when it could lose a
 * request.
 */
export class RouteRegistry {
  readonly #store: Store;
  readonly #models: ModelRegistry;
  readonly #now: () => Instant;

  constructor(store: Store, now: () => Instant = () => instant(Date.now() * 1_000)) {
    this.#store = store;
    this.#models = new ModelRegistry(store);
    this.#now = now;
  }

  async list(): Promise<Route[]> {
    const entries = await listEntries(this.#store, BUCKET.plan);
    return entries
      .filter(({ key }) => key.startsWith(routeKeys.prefix))
      .map(({ value }) => readStored(value, isRoute))
      .filter((route) => route !== undefined)
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  async get(name: string): Promise<Route | undefined> {
    const entry = await getEntry(this.#store, BUCKET.plan, routeKeys.model(name));
    return entry === undefined ? undefined : readStored(entry.value, isRoute);
  }

  /** Every version that is loaded, the one under the model's own name first. @throws {TuttiError} NOT_FOUND */
  async versions(name: string): Promise<ListedModel[]> {
    const all = await this.#models.list();
    const listed = all.filter(({ spec }) => publicNameOf(spec.name) === name);
    if (listed.length === 0)
      throw noModelError(
        name,
        all.map(({ spec }) => publicNameOf(spec.name)),
      );
    return listed;
  }

  /** @throws {TuttiError} INVALID_INPUT, NOT_FOUND, NOT_READY: why the version can't get the share */
  setShare(name: string, { version, percent, ramp }: RolloutOptions): Promise<Route> {
    return this.#change(name, (before, versions) => {
      if (!(percent >= 0 && percent <= 100)) throw invalid(`${percent} is no percentage from 0 to 100`);
      const { default: otherwise, shadow } = before;
      if (version === otherwise && percent === 100)
        return { default: otherwise, slices: [], ...(shadow !== undefined && { shadow }), why: "all to the default" };
      if (version === otherwise)
        throw invalid(
          `version ${version} of "${name}" is the default, which has what the others leave: give another one its share`,
        );
      if (percent > 0) checkReady(versions, name, { version, like: otherwise });
      const had = percentOf(before, version);
      const steps = ramp === undefined ? [percent] : rampSteps(had, percent);
      const slices = withPercent(before.slices, version, steps[0]!);
      // The goal is checked too: a rollout that can't reach it does not begin.
      if (slices === undefined || withPercent(before.slices, version, percent) === undefined)
        throw invalid(
          `the default of "${name}" has ${percentOf(before, otherwise)} % to give, and version ${version} would need ${percent - had} % more`,
        );
      const at = this.#now();
      const kept = { default: otherwise, slices, ...(shadow !== undefined && { shadow }) };
      if (ramp === undefined) return { ...kept, why: `${percent} % to version ${version}` };
      const { over, badMax, mismatchMax } = ramp;
      return {
        ...{ ...kept, why: `to ${percent} % for version ${version}, step by step` },
        ramp: { version, startedAt: at, over, steps, step: 0, steppedAt: at, badMax, mismatchMax },
      };
    });
  }

  /**
   * Makes `version` the default, which gets the requests outside all shares. Its own share is merged. @throws as
   * setShare
   */
  setDefault(name: string, version: string): Promise<Route> {
    return this.#change(name, (before, versions) => {
      checkReady(versions, name, { version, like: before.default });
      const { shadow } = before;
      const kept = shadow === undefined || shadow.version === version ? {} : { shadow };
      return { ...withDefault(before, version), ...kept, why: `version ${version} is the default` };
    });
  }

  /** Sets the shadow of the route; undefined ends it. @throws as setShare */
  setShadow(name: string, shadow: RouteShadow | undefined): Promise<Route> {
    return this.#change(name, (before, versions) => {
      const { default: otherwise, slices } = before;
      if (shadow === undefined) return { default: otherwise, slices, why: "no shadow" };
      if (!(shadow.percent >= 0.01 && shadow.percent <= 100))
        throw invalid(`${shadow.percent} is no percentage above 0 and up to 100`);
      if (shadow.version === otherwise)
        throw invalid(`version ${otherwise} of "${name}" is the default: nothing would be compared`);
      checkReady(versions, name, { version: shadow.version, like: otherwise });
      return { default: otherwise, slices, shadow, why: `version ${shadow.version} shadows ${shadow.percent} %` };
    });
  }

  /**
   * Restores the state before the last change at once; a second call restores the state that the first one left. A
   * change that the planner made took a bad version's share away, and isn't taken back.
   *
   * @throws {TuttiError} NOT_FOUND, INVALID_INPUT
   */
  back(name: string): Promise<Route> {
    return this.#change(name, (_, versions, route) => {
      const before = route === undefined ? undefined : stateBefore(route);
      if (before === undefined) throw new TuttiError("TUTTI_NOT_FOUND", `"${name}" has no rollout to go back from`);
      const { by, why } = stateOf(route!);
      if (by === "planner")
        throw invalid(
          `"${name}" went back by itself: ${why}; \`tutti rollout ${name} --to <version> --percent <n>\` gives shares anew`,
        );
      for (const version of versionsOf({ ...before, at: this.#now(), by: "", why: "" }))
        if (!versions.some(({ spec }) => spec.version === version))
          throw new TuttiError(
            "TUTTI_NOT_FOUND",
            `version ${version} of "${name}" is not loaded any more: load it again, or give shares anew`,
          );
      return { ...before, why: "back to the state before" };
    });
  }

  /**
   * Ends routing: every request goes to the version under the model's own name. @returns false where there was no route
   */
  async clear(name: string): Promise<boolean> {
    if ((await this.get(name)) === undefined) return false;
    const [first] = await this.versions(name);
    if (first!.spec.name !== name || first!.status?.state !== "ready")
      throw new TuttiError(
        "TUTTI_NOT_READY",
        `no version is served under the name "${name}" itself: without a route nobody would answer`,
      );
    await deleteEntry(this.#store, BUCKET.plan, routeKeys.model(name));
    return true;
  }

  /**
   * Stops serving `name/version`, or a model with all its versions and its route.
   *
   * @param keep - whether it may be restored (ModelRegistry); otherwise what was kept of it is forgotten too
   * @returns false when there is no such model
   * @throws {TuttiError} INVALID_INPUT: requests go to that version
   */
  async unload(modelName: string, { keep = false }: { readonly keep?: boolean } = {}): Promise<boolean> {
    const { name, version } = splitModelName(modelName);
    const listed = (await this.#models.list()).filter(({ spec }) => publicNameOf(spec.name) === name);
    const found = listed.filter(({ spec }) => version === undefined || spec.version === version);
    if (found.length === 0) return keep ? this.#models.isUnloaded(name) : this.#models.forget(modelName);
    if (version !== undefined) await this.#checkUnused(name, found[0]!.spec, listed.length);
    for (const { spec } of found) await this.#models.remove(spec.name, keep);
    if (!keep) await this.#models.forget(modelName);
    const isRouted = version === undefined && (await this.get(name)) !== undefined;
    if (isRouted) await deleteEntry(this.#store, BUCKET.plan, routeKeys.model(name));
    return true;
  }

  async #checkUnused(name: string, spec: ModelSpec, versions: number): Promise<void> {
    const { version } = spec;
    const route = await this.get(name);
    const state = route === undefined ? undefined : stateOf(route);
    if (state === undefined && (spec.name !== name || versions === 1)) return;
    const use =
      state === undefined || state.default === version
        ? "it is the default"
        : percentOf(state, version) > 0
          ? `${percentOf(state, version)} % of the requests go to it`
          : state.shadow?.version === version
            ? "it is the shadow"
            : state.ramp?.version === version
              ? "its share is growing"
              : undefined;
    if (use !== undefined)
      throw invalid(`version ${version} of "${name}" can't be unloaded: ${use} (\`tutti rollout ${name}\`)`);
  }

  async #change(
    name: string,
    make: (before: RouteState, versions: readonly ListedModel[], route: Route | undefined) => Change,
  ): Promise<Route> {
    const versions = await this.versions(name);
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      const entry = await getEntry(this.#store, BUCKET.plan, routeKeys.model(name));
      const newer = entry === undefined ? undefined : newerForm(entry.value, isRoute);
      if (newer !== undefined) throw invalid(newer);
      const known = entry === undefined ? undefined : readStored(entry.value, isRoute);
      const before = known === undefined ? unrouted(name, versions, this.#now()) : stateOf(known);
      const change = make(before, versions, known);
      const state: RouteState = { ...change, at: this.#now(), by: "operator" };
      // The first state to go back to is the one before this change.
      const route = withState(known ?? { name, states: [before] }, state);
      if (!isRoute(route)) throw invalid(`"${name}" would get a route that nobody can read`);
      const revision = entry?.revision ?? 0;
      const written = await updateEntry(this.#store, BUCKET.plan, routeKeys.model(name), {
        value: writeStored(isRoute, route),
        revision,
      });
      if (written !== undefined) return route;
    }
    throw new TuttiError("TUTTI_UNAVAILABLE", `others keep changing the route of ${name} at the same time; try again`);
  }
}

/** The state without a route: every request goes to the version that has the model's own name. */
function unrouted(name: string, versions: readonly ListedModel[], at: Instant): RouteState {
  const first = versions.find(({ spec }) => spec.name === name) ?? versions[0]!;
  const { version } = first.spec;
  if (!isVersion(version))
    throw invalid(
      `the version of "${name}" that is there is called ${JSON.stringify(version)}, which no header could say: load it under another`,
    );
  return { at, by: "operator", why: "nothing is shared", default: version, slices: [] };
}

/** Checks that a version is ready and can answer the requests of version `like`. @throws {TuttiError} saying why not */
function checkReady(
  versions: readonly ListedModel[],
  name: string,
  { version, like }: { readonly version: string; readonly like: string },
): void {
  const found = versions.find(({ spec }) => spec.version === version);
  if (found === undefined) {
    const there = versions.map(({ spec }) => spec.version).join(", ");
    throw new TuttiError(
      "TUTTI_NOT_FOUND",
      `version ${version} of "${name}" is not loaded; there is ${there}: tutti load <file> --name ${name} --version ${version}`,
    );
  }
  const { status } = found;
  if (status?.state !== "ready") {
    const why = status === undefined || status.reason === "" ? "" : `: ${status.reason}`;
    throw new TuttiError(
      "TUTTI_NOT_READY",
      `version ${version} of "${name}" is not ready but ${status?.state ?? "waiting"}${why}`,
      { retryable: false },
    );
  }
  const other = versions.find(({ spec }) => spec.version === like);
  if (other === undefined || isAlike(found.spec, other.spec)) return;
  throw invalid(
    `version ${version} of "${name}" has other inputs or outputs than version ${like}: whoever wants it names it, and it gets no share`,
  );
}

/** Whether requests to one can be answered by the other, row for row. */
const isAlike = (a: ModelSpec, b: ModelSpec): boolean =>
  JSON.stringify([a.inputs, a.axes, a.buckets, a.outputs]) === JSON.stringify([b.inputs, b.axes, b.buckets, b.outputs]);

const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
