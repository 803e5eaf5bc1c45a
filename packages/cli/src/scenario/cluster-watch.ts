/** Listens to a running cluster, and reads its models, for a scenario. */
import { CommandError, EXIT } from "@tutti/admin";
import type { Cluster } from "@tutti/admin/cluster";
import { ClusterView, type HeardActor, latestOf, measuredDelays } from "@tutti/admin/operators";
import type { NatsConnection } from "@tutti/bus-nats";
import { type ListedModel, ModelRegistry, variantsOf } from "@tutti/client/registries";
import { type ModelSpec, StatsReported, publicNameOf, subjectsOf, versionName } from "@tutti/protocol";
import type { ActorKey } from "@tutti/units";
import { FrameReader } from "@tutti/wire";
import type { SeenCluster, SeenModel } from "./live-scenario.ts";
import { ObservedLoad } from "./observed-load.ts";

/** Time for the first reports of all actors, which come every second. */
const REPORTS_WAIT_MS = 5_000;
/** Most turns kept: those of 27 hours of one process. */
const TURNS_MAX = 100_000;

export class ClusterWatch {
  readonly load = new ObservedLoad();
  readonly #view = new ClusterView();
  readonly #turns: { readonly key: ActorKey; readonly us: number }[] = [];
  /** Each batcher's first report here. */
  readonly #first = new Map<ActorKey, StatsReported>();
  readonly #nats: NatsConnection;
  readonly #cluster: string;
  readonly #listening: readonly { stop(): void }[];

  constructor(nats: NatsConnection, { cluster }: Pick<Cluster, "cluster">) {
    this.#nats = nats;
    this.#cluster = cluster;
    const reader = new FrameReader().on(StatsReported, (stats, sender) => {
      if (stats.key === sender && StatsReported.accepts(stats)) this.#hear(stats);
    });
    this.#listening = [
      this.#view.listen(nats.control, cluster),
      nats.control.subscribe(subjectsOf(cluster).stats("*"), ({ payload }) => void reader.read(payload)),
    ];
  }

  stop(): void {
    for (const one of this.#listening) one.stop();
  }

  #hear(stats: StatsReported): void {
    this.load.hear(stats);
    if (stats.role === "batcher" && !this.#first.has(stats.key)) this.#first.set(stats.key, stats);
    const us = stats.figures["turnMaxUs"];
    if (us !== undefined && this.#turns.length < TURNS_MAX) this.#turns.push({ key: stats.key, us });
  }

  /** A batcher's last report, and the one since which delays count; with one alone they do so since its start. */
  #reportsOf(actor: HeardActor): { readonly last: StatsReported; readonly earlier: StatsReported | undefined }[] {
    const last = actor.beat.role === "batcher" ? latestOf(actor) : undefined;
    const first = this.#first.get(actor.key);
    return last === undefined ? [] : [{ last, earlier: first?.at === last.at ? undefined : first }];
  }

  /**
   * @param asked - names that requests had
   * @throws {CommandError} nobody is heard, or no model has a profile
   */
  async seen(asked: readonly string[] = []): Promise<SeenCluster> {
    await this.#view.until(() => this.#view.hasReports(1), REPORTS_WAIT_MS);
    const actors = this.#view.actors();
    if (actors.length === 0)
      throw new CommandError(`nobody of the cluster "${this.#cluster}" was heard`, EXIT.unavailable);
    const models = await seenModels(new ModelRegistry(this.#nats.store), new Set(asked));
    if (models.length === 0) throw new CommandError("no model has a profile yet: `tutti models` shows their states");
    const processOf = new Map(actors.map(({ key, beat: { host, pid } }) => [key, `${host}/${pid}`]));
    const scheduling = new Set(
      actors.flatMap(({ key, beat: { role } }) =>
        role === "batcher" || role === "ranker" ? [processOf.get(key)] : [],
      ),
    );
    const serving = actors.flatMap(({ beat }) => beat.gpus ?? []).filter((gpu) => gpu.serving);
    const gpus = [...new Map(serving.map((gpu) => [gpu.gpu, gpu])).values()];
    return {
      ...{ cluster: this.#cluster, at: new Date().toISOString(), models },
      accelerators: gpus.map(({ type }) => type),
      subClusters: new Set(gpus.map(({ subCluster }) => subCluster)).size,
      delays: measuredDelays(actors.flatMap((actor) => this.#reportsOf(actor))),
      turnsUs: this.#turns.flatMap(({ key, us }) => (scheduling.has(processOf.get(key)) ? [us] : [])),
    };
  }
}

/** Models that have a profile: those of families by their own names, and under other names where they were asked so. */
async function seenModels(registry: ModelRegistry, asked: ReadonlySet<string>): Promise<SeenModel[]> {
  const listed = await registry.list();
  const all = await Promise.all(
    listed.map(async ({ spec, status }): Promise<SeenModel[]> => {
      if (status === undefined || (status.profiles.at(-1) ?? []).length === 0) return [];
      const times = await registry.runTimes(spec);
      return namesOf(spec, listed, asked).map((name) => ({ name, spec, status, times }));
    }),
  );
  return all.flat();
}

function namesOf(spec: ModelSpec, listed: readonly ListedModel[], asked: ReadonlySet<string>): string[] {
  const own =
    spec.family === undefined
      ? [spec.name]
      : variantsOf(listed).flatMap((view) => (view.variant?.family === spec.name ? view.name : []));
  const others = [spec.name, versionName(publicNameOf(spec.name), spec.version)].filter((name) => asked.has(name));
  return [...new Set([...own, ...others])];
}
