import {
  HEADER,
  type RouteState,
  TuttiError,
  noModelError,
  percentOf,
  publicNameOf,
  slotOf,
  splitModelName,
  stateOf,
  versionAt,
  versionName,
  versionsOf,
} from "@tutti/protocol";
import type { Store } from "@tutti/ports/store";
import type { Logger } from "@tutti/ports/telemetry";
import { type Catalog, type CatalogModel, RouteWatcher } from "@tutti/actors/runtime";
import { quarantineError, servingModel } from "./admission.ts";
import { TermsError } from "../requests/terms-error.ts";

export interface RouterOptions {
  readonly store: Store;
  readonly log: Logger;
  readonly catalog: () => Pick<Catalog, "target" | "models">;
  /** Names of the pipelines that this ingress serves. */
  readonly pipelines: () => Iterable<string>;
}

/** The addressee of a request. */
export interface Addressed {
  /** `mlp` or `mlp/2`. */
  readonly target: string;
  /** Value of the header `Tutti-Version`. */
  readonly version: string | undefined;
  /** The publisher's own id, which stays with a retry; otherwise an id of this request alone. */
  readonly id: string;
}

/** The version that a request goes to, decided once, when it comes (docs/rollouts.md). */
export interface Resolved {
  readonly model: CatalogModel;
  /** Whether the answer names the version, because a route chose it or the publisher asked for it. */
  readonly isVersioned: boolean;
}

/**
 * Finds the version for a request: the one that it names, or the one whose share its id falls into.
 *
 *   VR1. The same id gets the same version as long as the route stays (RO1), at every ingress that has heard of it.
 *   VR2. A version that can't be served now has no share: the default gets it meanwhile. A request that names such a
 *        version is refused.
 */
export class VersionRouter {
  readonly #options: RouterOptions;
  readonly #routes: RouteWatcher;
  /** Versions that have a share and don't serve, as last logged. */
  readonly #fallen = new Set<string>();
  #fellBack = 0;

  constructor(options: RouterOptions) {
    this.#options = options;
    this.#routes = new RouteWatcher(options.store, options.log, (name) => this.look(name));
  }

  /** `ready` is called once every present route is known. */
  open(ready: () => void): void {
    this.#routes.open(ready);
  }
  close(): void {
    this.#routes.close();
  }

  get figures(): { readonly routes: number; readonly fellBack: number } {
    return { routes: this.#routes.size, fellBack: this.#fellBack };
  }

  /** @throws {TuttiError} NOT_FOUND, INVALID_INPUT, or why it can't be served now */
  resolve({ target, version: header, id }: Addressed): Resolved {
    const { name, version: named = header } = splitModelName(target);
    if (named === undefined) {
      const route = this.#routes.size === 0 ? undefined : this.#routes.get(name);
      if (route !== undefined) return { model: this.#routed(name, stateOf(route), id), isVersioned: true };
      const model = this.#options.catalog().target(name);
      if (model === undefined) throw noModelError(name, this.#names());
      return { model: servingModel(model, name, undefined), isVersioned: false };
    }
    if (header !== undefined && header !== named)
      throw new TermsError(
        `the subject asks for version ${named} of "${name}", and ${HEADER.version} for another: leave one of them out`,
      );
    const model = this.#version(name, named);
    if (model === undefined) throw this.#unknown(name, named);
    return { model: servingModel(model, model.spec.name, undefined), isVersioned: true };
  }

  /**
   * A model, one of its versions or its route has changed. Logs which versions lost their share to the default, and
   * which have it back.
   */
  look(modelName: string): void {
    if (this.#routes.size === 0 && this.#fallen.size === 0) return;
    const name = publicNameOf(modelName);
    const route = this.#routes.get(name);
    const state = route === undefined ? undefined : stateOf(route);
    const shared = state === undefined ? [] : versionsOf(state).filter((version) => version !== state.default);
    for (const id of this.#fallen)
      if (publicNameOf(id) === name && !shared.includes(splitModelName(id).version!)) this.#fallen.delete(id);
    for (const version of shared) this.#lookAt(name, version, state!);
  }

  #lookAt(name: string, version: string, state: RouteState): void {
    const { log } = this.#options;
    const id = versionName(name, version);
    const model = this.#version(name, version);
    const serves = model !== undefined && isServing(model);
    if (serves === !this.#fallen.has(id)) return;
    const about = { model: name, version, percent: percentOf(state, version) };
    if (serves) {
      this.#fallen.delete(id);
      log.info(about, "this version serves again, and has its share again");
    } else {
      this.#fallen.add(id);
      const { state: phase = "not loaded", reason = "" } = model?.status ?? {};
      log.warn({ ...about, state: phase, reason }, "this version can't be served: the default has its share");
    }
  }

  /** VR2. */
  #routed(name: string, state: RouteState, id: string): CatalogModel {
    const version = versionAt(state, slotOf(name, id));
    if (version !== state.default) {
      const model = this.#version(name, version);
      if (model !== undefined && isServing(model)) return model;
      this.#fellBack++;
    }
    const standard = this.#version(name, state.default);
    if (standard?.status?.state === "quarantined") throw quarantineError(standard);
    return servingModel(standard, name, undefined);
  }

  #version(name: string, version: string): CatalogModel | undefined {
    const catalog = this.#options.catalog();
    const first = catalog.target(name);
    return first?.spec.version === version ? first : catalog.target(versionName(name, version));
  }

  #unknown(name: string, version: string): TuttiError {
    const there: string[] = [];
    for (const { spec } of this.#options.catalog().models())
      if (publicNameOf(spec.name) === name) there.push(spec.version);
    if (there.length === 0) return noModelError(name, this.#names());
    return new TuttiError(
      "TUTTI_NOT_FOUND",
      `"${name}" is served in version ${there.slice(0, 16).join(", ")}, not ${version.slice(0, 80)}: leave ${HEADER.version} out to take what is there`,
    );
  }

  /** The names that publishers may ask for. */
  *#names(): Iterable<string> {
    yield* this.#options.pipelines();
    for (const { spec } of this.#options.catalog().models()) {
      if (spec.family === undefined) yield publicNameOf(spec.name);
      else yield* spec.family.variants.map(({ name }) => publicNameOf(name));
    }
  }
}

export const isServing = ({ status, lease }: CatalogModel): boolean => status?.state === "ready" && lease !== undefined;
