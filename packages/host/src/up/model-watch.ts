/** `tutti up --models` looked at again and again: see RepositoryWatch. */
import { setTimeout as pause } from "node:timers/promises";
import { ModelRegistry, RouteRegistry } from "@tutti/client/registries";
import { CommandError } from "@tutti/admin";
import {
  RemoteModels,
  type RepositoryModel,
  RepositoryWatch,
  listRepository,
  readModelFile,
} from "@tutti/admin/models";
import type { Store } from "@tutti/ports/store";
import type { Micros } from "@tutti/units";
import type { Announcer } from "./announcer.ts";

export interface ModelWatch {
  /** Resolves when nothing of it is under way any more. */
  stop(): Promise<void>;
}

export interface WatchOptions {
  /** A folder or the URL of a prefix. */
  readonly place: string;
  readonly every: Micros;
  /** Models that are served from there already. */
  readonly served: readonly RepositoryModel[];
  readonly servedMs: number;
  readonly announcer: Announcer;
}

export function watchModels(store: Store, options: WatchOptions): ModelWatch {
  const { place, every, served, servedMs, announcer } = options;
  const remote = new RemoteModels();
  const registry = new ModelRegistry(store);
  const ending = new AbortController();
  const ours = new Set(served.map(({ name }) => name));
  const serve = async ({ name, path, config, version }: RepositoryModel): Promise<void> => {
    const { model, bytes } = await readModelFile({ path, name, config, flags: {} }, remote);
    if (!ours.has(name) && (await registry.get(name)) !== undefined)
      throw new CommandError(`a model of that name is served from elsewhere: rename one, or \`tutti unload ${name}\``);
    const spec = await registry.publish(model, { model: bytes });
    ours.add(name);
    const { state, reason } = await registry.waitUntilServed(spec, { timeoutMs: servedMs, signal: ending.signal });
    if (state !== "ready") throw new CommandError(`${state}: ${reason}`);
    announcer.say("models-changed", `${name}: version ${version} of the repository is served`, { name, version });
  };
  const remove = async (name: string): Promise<boolean> => {
    if (!ours.has(name)) return false;
    const removed = await new RouteRegistry(store).unload(name);
    ours.delete(name);
    return removed;
  };
  const watch = new RepositoryWatch(
    {
      list: () => listRepository(place, remote),
      serve,
      remove,
      say: (event, text, fields) => announcer.say(event, text, { ...fields }),
    },
    served,
  );
  const follow = async (): Promise<void> => {
    while (!ending.signal.aborted) {
      await pause(every / 1_000, undefined, { signal: ending.signal, ref: false }).catch(() => undefined);
      if (!ending.signal.aborted) await watch.look();
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
