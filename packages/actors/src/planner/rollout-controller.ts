/**
 * Drives rollouts: takes the steps of a ramp when they are due, and rolls a bad version back. A version is bad if its
 * requests or comparisons fail too often, or if it can't be served. The routes in force are in the store; ingresses
 * need no controller to follow them.
 *
 *   RK1. It only continues what an operator began: a share never grows beyond the operator's ramp.
 *   RK2. Routes are written by compare-and-set: if the controller and an operator change one at once, one of them
 *        succeeds, and the controller looks again.
 *   RK3. A version that is quarantined, failed or refused loses its share permanently; ingresses have already taken it
 *        away (VR2).
 */
import { type RampSeen, judgeRamp } from "@tutti/planning/live";
import {
  BUCKET,
  type Route,
  type RouteRamp,
  type RouteState,
  type StatsReported,
  isRoute,
  percentOf,
  routeKeys,
  stateBefore,
  stateOf,
  versionName,
  versionsOf,
  withPercent,
  withState,
} from "@tutti/protocol";
import { type Store, isStoreFailure } from "@tutti/ports/store";
import type { Logger } from "@tutti/ports/telemetry";
import { type Instant, modelNumberOf } from "@tutti/units";
import { writeStored } from "@tutti/wire";
import type { Catalog, CatalogModel } from "../runtime/catalog.ts";
import { type KnownRoute, RouteWatcher } from "../runtime/route-watcher.ts";
import { ServedStats } from "./served-stats.ts";

export interface RolloutControllerOptions {
  readonly store: Store;
  readonly log: Logger;
  readonly catalog: Pick<Catalog, "get">;
  /** Reports news of a model to human readers. */
  readonly onNews: (about: string, text: string) => void;
}

const GIVEN_UP: ReadonlySet<unknown> = new Set(["refused", "failed", "quarantined"]);

export class RolloutController {
  readonly #options: RolloutControllerOptions;
  readonly #routes: RouteWatcher;
  readonly #served = new ServedStats();
  /** Names of routes that are being written, so that there is one write at a time. */
  readonly #writing = new Set<string>();
  #steps = 0;
  #backs = 0;

  constructor(options: RolloutControllerOptions) {
    this.#options = options;
    this.#routes = new RouteWatcher(options.store, options.log);
  }

  open(ready: () => void): void {
    this.#routes.open(ready);
  }
  close(): void {
    this.#routes.close();
  }

  get figures(): { readonly routes: number; readonly rolloutSteps: number; readonly rolloutsBack: number } {
    return { routes: this.#routes.size, rolloutSteps: this.#steps, rolloutsBack: this.#backs };
  }

  hear(stats: StatsReported): void {
    this.#served.note(
      stats,
      (stats.perThread ?? []).map(({ thread, figures }) => ({ model: modelNumberOf(thread), figures })),
    );
  }

  /** Runs once a second. */
  look(now: Instant): void {
    const watched = new Set<string>();
    for (const known of this.#routes.known()) {
      const { name } = known.route;
      if (this.#writing.has(name)) continue;
      const state = stateOf(known.route);
      if (state.ramp !== undefined) watched.add(name);
      const next = this.#next(known.route, state, now);
      if (next !== undefined) this.#write(known, next);
    }
    this.#served.watchOnly(watched);
  }

  /** The route as it should be now; undefined: unchanged. */
  #next(route: Route, state: RouteState, now: Instant): Route | undefined {
    const { name } = route;
    const { ramp } = state;
    if (ramp !== undefined) return this.#ramped(route, state, ramp, now);
    // RK3.
    for (const version of versionsOf(state)) {
      const model = this.#version(name, version);
      if (version === state.default || model?.status === undefined || !GIVEN_UP.has(model.status.state)) continue;
      const why = `version ${version} is ${model.status.state}: its ${percentOf(state, version)} % go to the default`;
      const { shadow } = state;
      const kept = shadow === undefined ? {} : { shadow };
      const slices = state.slices.filter((slice) => slice.version !== version);
      return withState(route, { default: state.default, slices, ...kept, at: now, by: "planner", why });
    }
    return undefined;
  }

  #ramped(route: Route, state: RouteState, ramp: RouteRamp, now: Instant): Route | undefined {
    const verdict = judgeRamp(ramp, this.#seen(route.name, ramp), now);
    switch (verdict.kind) {
      case "stay":
        return undefined;
      case "back":
        return this.#back(route, state, verdict.why, now);
      case "done": {
        const { ramp: _, ...settled } = state;
        const why = `${percentOf(state, ramp.version)} % to version ${ramp.version}, reached step by step`;
        return replaced(route, { ...settled, why });
      }
      case "step": {
        const percent = ramp.steps[verdict.step]!;
        const slices = withPercent(state.slices, ramp.version, percent);
        // The default's share was given away meanwhile.
        if (slices === undefined)
          return this.#back(route, state, `the default has no ${percent} % to give any more`, now);
        return replaced(route, { ...state, slices, ramp: { ...ramp, step: verdict.step, steppedAt: now } });
      }
    }
  }

  #back(route: Route, state: RouteState, reason: string, now: Instant): Route {
    const before = stateBefore(route) ?? { default: state.default, slices: [] };
    const why = `version ${state.ramp!.version} was rolled back at ${percentOf(state, state.ramp!.version)} %: ${reason}`;
    // The state before may have a shadow. It adds nothing to the version's own requests, but an operator may want to
    // see it.
    return withState(route, { ...before, at: now, by: "planner", why: why.slice(0, 1_000) });
  }

  #seen(name: string, ramp: RouteRamp): RampSeen {
    const model = this.#version(name, ramp.version);
    const status = model?.status;
    const givenUp =
      model === undefined
        ? "it is not loaded any more"
        : status !== undefined && GIVEN_UP.has(status.state)
          ? `it is ${status.state}${status.reason === "" ? "" : `: ${status.reason}`}`
          : "";
    const serves = status?.state === "ready" && model?.lease !== undefined;
    const number = model?.spec.number ?? 0;
    return { ...this.#served.since(name, { model: number, step: `${ramp.startedAt}/${ramp.step}` }), serves, givenUp };
  }

  #version(name: string, version: string): CatalogModel | undefined {
    const first = this.#options.catalog.get(name);
    return first?.spec.version === version ? first : this.#options.catalog.get(versionName(name, version));
  }

  /** RK2. */
  #write({ route: before, revision }: KnownRoute, route: Route): void {
    const { store, log, onNews } = this.#options;
    const { name } = route;
    this.#writing.add(name);
    store.update(BUCKET.plan, routeKeys.model(name), writeStored(isRoute, route), revision, (result) => {
      this.#writing.delete(name);
      if (result === "conflict") return;
      if (isStoreFailure(result))
        return log.warn({ model: name, failure: result.failure }, "a route can't be written; it is tried again");
      const [was, is] = [stateOf(before), stateOf(route)];
      const version = was.ramp?.version;
      if (is.by === "planner" && is.at !== was.at) {
        this.#backs++;
        log.warn({ model: name, why: is.why }, "a version has lost its share");
        onNews(name, is.why);
      } else {
        this.#steps++;
        const percent = version === undefined ? 0 : percentOf(is, version);
        log.info({ model: name, version, percent, isDone: is.ramp === undefined }, "a rollout goes on");
        if (version !== undefined) onNews(name, `version ${version} has ${percent} % of the requests`);
      }
    });
  }
}

/** Replaces the last state: a ramp's steps are one change, and a rollback returns to the state before the ramp. */
const replaced = (route: Route, state: RouteState): Route => ({
  ...route,
  states: [...route.states.slice(0, -1), state],
});
