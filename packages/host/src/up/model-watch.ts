/** `tutti up --models` looked at again and again: see RepositoryWatch. */
import { setTimeout as pause } from "node:timers/promises";
import { ModelRegistry, RouteRegistry } from "@tutti/client/registries";
import { CommandError, explain } from "@tutti/admin";
import {
  type LoadableModel,
  RemoteModels,
  type RepositoryModel,
  RepositoryWatch,
  passedOverText,
  readModelFile,
  surveyRepository,
} from "@tutti/admin/models";
import type { Store } from "@tutti/ports/store";
import { type ModelSpec, versionName } from "@tutti/protocol";
import type { Micros } from "@tutti/units";
import type { Announcer } from "./announcer.ts";

export interface ModelWatch {
  /** Resolves when nothing of it is under way any more; a download is broken off. */
  stop(): Promise<void>;
}

export interface WatchOptions {
  /** A folder or the URL of a prefix. */
  readonly place: string;
  readonly every: Micros;
  /** Models that are served from there already. */
  readonly served: readonly RepositoryModel[];
  /** The same as the cluster numbers them; others are passed over. */
  readonly specs: readonly ModelSpec[];
  readonly servedMs: number;
  readonly announcer: Pick<Announcer, "say">;
}

export function watchModels(store: Store, options: WatchOptions): ModelWatch {
  const { place, every, served, servedMs, announcer } = options;
  const ending = new AbortController();
  const { signal } = ending;
  const remote = new RemoteModels(process.env, signal);
  const registry = new ModelRegistry(store);
  const names = new Set(served.map(({ name }) => name));
  const brought = new Brought(
    store,
    options.specs.filter(({ name }) => names.has(name)),
  );
  /** Says how it ends: a model that takes minutes, or never comes, keeps no other one waiting. */
  const report = async (spec: ModelSpec, version: string): Promise<void> => {
    const { name } = spec;
    try {
      const { state, reason } = await registry.waitUntilServed(spec, { timeoutMs: servedMs, signal });
      if (!brought.has(spec)) return; // replaced or taken back meanwhile
      if (state !== "ready") throw new CommandError(`${state}: ${reason}`);
      announcer.say("models-changed", `${name}: version ${version} of the repository is served`, { name, version });
    } catch (error) {
      const why = explain(error).text;
      if (!signal.aborted && brought.has(spec))
        announcer.say("models-faulty", `${name}: version ${version} of the repository is not served: ${why}`, {
          ...{ name, why },
        });
    }
  };
  const watch = new RepositoryWatch<LoadableModel>(
    {
      list: () => surveyRepository(place, remote),
      admit: (name) => brought.admit(name),
      read: ({ path, name, config }) => readModelFile({ path, name, config, flags: {} }, remote),
      serve: async ({ name, version }, loadable) => {
        const { model, bytes } = loadable;
        const passedOver = passedOverText([loadable]);
        if (passedOver !== undefined) announcer.say("models-passed-over", passedOver, { name });
        await brought.admit(name); // reading may have taken minutes
        const spec = await registry.publish(model, { model: bytes });
        brought.note(spec);
        // One that begins after the end would not hear of it.
        if (!signal.aborted) void report(spec, version);
      },
      remove: (name) => brought.remove(name),
      say: (event, text, fields) => announcer.say(event, text, { ...fields }),
    },
    served,
  );
  const follow = async (): Promise<void> => {
    while (!signal.aborted) {
      await pause(every / 1_000, undefined, { signal, ref: false }).catch(() => undefined);
      if (!signal.aborted) await watch.look(signal);
    }
  };
  const work = follow();
  return {
    stop() {
      ending.abort();
      return work;
    },
  };
}

/**
 * The models that the watch has brought, by the numbers that the cluster gave them: a name may be an operator's by now.
 */
class Brought {
  readonly #registry: ModelRegistry;
  readonly #routes: RouteRegistry;
  readonly #numbers: Map<string, number>;

  constructor(store: Store, specs: readonly ModelSpec[]) {
    this.#registry = new ModelRegistry(store);
    this.#routes = new RouteRegistry(store);
    this.#numbers = new Map(specs.map(({ name, number }) => [name, number]));
  }

  has({ name, number }: ModelSpec): boolean {
    return this.#numbers.get(name) === number;
  }

  note({ name, number }: ModelSpec): void {
    this.#numbers.set(name, number);
  }

  /** @throws {CommandError} the name is an operator's, or the model's requests are shared between versions */
  async admit(name: string): Promise<void> {
    const known = await this.#registry.get(name);
    if (known === undefined) return;
    if (!this.has(known))
      throw new CommandError(`a model of that name is served from elsewhere: rename one, or \`tutti unload ${name}\``);
    if ((await this.#routes.get(name)) !== undefined)
      throw new CommandError(`its requests are shared between versions: \`tutti rollout ${name} --clear\` ends that`);
  }

  /** @returns false where it is gone already, or is another one. @throws {TuttiError} requests still need it */
  async remove(name: string): Promise<boolean> {
    const known = await this.#registry.get(name);
    const isOurs = known !== undefined && this.has(known);
    const isRemoved = isOurs && (await this.#routes.unload(versionName(name, known.version)));
    this.#numbers.delete(name);
    return isRemoved;
  }
}
