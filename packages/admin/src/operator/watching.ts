/**
 * `tutti status`, `tutti actors` and `tutti top`: listen until all actors were heard, then show them once or
 * repeatedly.
 */
import type { Bus } from "@tutti/ports/bus";
import { ModelRegistry, RouteRegistry } from "@tutti/client/registries";
import type { Store } from "@tutti/ports/store";
import type { AgentAnswered } from "@tutti/protocol";
import type { ClusterOptions } from "../cluster/find-cluster.ts";
import { withCluster } from "../cluster/connection.ts";
import { CommandError, EXIT } from "../failure.ts";
import { print } from "../print.ts";
import { waitOption } from "../seconds-option.ts";
import { actorRows, renderActors } from "./actor-table.ts";
import { ClusterView } from "./cluster-view.ts";
import { isLive, showLive } from "./live.ts";
import { OperatorLink } from "./operator-link.ts";
import { renderClusterStatus, statusOf } from "./status-table.ts";
import { renderTop, topOf } from "./top-table.ts";

export interface WatchOptions extends ClusterOptions {
  readonly json?: boolean;
  readonly once?: boolean;
  /** Seconds. */
  readonly wait: string;
}

interface Watching {
  readonly bus: Bus;
  readonly store: Store;
  readonly cluster: string;
  readonly view: ClusterView;
}

/**
 * Time limit for agents' answers; later ones are not shown. Actors' first heartbeats arrive within a tenth of a second.
 */
const AGENTS_MS = 800;
const REFRESH_MS = 1_000;
/** Number of reports that rates need. */
const RATES = 2;

const watch = (options: WatchOptions, reports: number, show: (watching: Watching) => Promise<void>): Promise<void> => {
  const waitMs = waitOption(options.wait);
  return withCluster({ ...options, name: "tutti-operator" }, async ({ control: bus, store }, { cluster }) => {
    const view = new ClusterView();
    const listening = view.listen(bus, cluster);
    try {
      await view.until(() => view.hasReports(reports), waitMs);
      if (view.actors().length === 0)
        throw new CommandError(
          `nobody of the cluster "${cluster}" was heard within ${options.wait} s`,
          EXIT.unavailable,
        );
      await show({ bus, store, cluster, view });
    } finally {
      listening.stop();
    }
  });
};

const isOnce = ({ json, once }: WatchOptions): boolean => json === true || once === true || !isLive();
const write = (value: unknown): void => print(JSON.stringify(value));

export const status = (options: WatchOptions): Promise<void> =>
  watch(options, RATES, async ({ store, view }) => {
    const [registry, routes] = [new ModelRegistry(store), new RouteRegistry(store)];
    const read = async (): Promise<ReturnType<typeof statusOf>> =>
      statusOf(view, await registry.list(), await routes.list());
    if (options.json === true) return write(await read());
    await showLive({
      once: isOnce(options),
      everyMs: REFRESH_MS,
      render: async () => renderClusterStatus(await read()),
    });
  });

export const top = (options: WatchOptions): Promise<void> =>
  watch(options, RATES, async ({ view }) => {
    if (options.json === true) return write(topOf(view));
    await showLive({ once: isOnce(options), everyMs: REFRESH_MS, render: () => renderTop(topOf(view)) });
  });

export const actors = (options: WatchOptions): Promise<void> =>
  watch(options, 1, async ({ bus, cluster, view }) => {
    const link = new OperatorLink(bus, cluster);
    try {
      const isEveryone = (known: readonly AgentAnswered[]): boolean =>
        actorRows(view, known).every(({ restarts }) => restarts !== undefined);
      const agents = await link.agents(AGENTS_MS, isEveryone);
      const rows = actorRows(view, agents);
      if (options.json === true) write(rows);
      else print(renderActors(rows));
    } finally {
      link.close();
    }
  });
