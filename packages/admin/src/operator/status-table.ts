/** `tutti status`: each model's request rates, each accelerator's utilization, and the leading rankers. */
import type { ListedModel } from "@tutti/client/registries";
import { DEFAULT_SUB_CLUSTER, type Route, type StatsReported } from "@tutti/protocol";
import { actorToken, modelNumberOf } from "@tutti/units";
import { routeLines } from "../rollout/rollout-text.ts";
import { renderTable } from "../table.ts";
import { type ClusterView, type HeardActor, latestOf, rateOf, sumOf } from "./cluster-view.ts";
import { type PipelineRow, type VariantRow, pipelineRows, renderParts, variantRows } from "./part-rows.ts";
import { type SchedulingTurns, schedulingTurns, turnsText } from "./scheduling-turns.ts";
import { type TopGpu, gpusOf, milliseconds, renderGpus, whole } from "./top-table.ts";

export interface ModelStatusRow {
  readonly name: string;
  readonly state: string;
  readonly reason: string;
  /** Per second; undefined until rates are known. */
  readonly offered: number | undefined;
  /** Answered in time, per second. */
  readonly good: number | undefined;
  readonly late: number | undefined;
  /** Per second, by cause. */
  readonly refused: Readonly<Record<string, number>>;
  readonly queue: number;
  readonly batchMean: number | undefined;
  /** Latency from arrival to answer over the last five to ten seconds, at the ingress where it is highest. */
  readonly p99Us: number;
  /** Time that batches keep in hand, of the bucket with the longest. */
  readonly reserveUs: number;
  /** Share of its requests that end even later, 0 … 1. */
  readonly beyondReserve: number;
}

export interface RankerRow {
  readonly actor: string;
  readonly host: string;
  readonly subCluster: string;
  readonly leads: boolean;
  readonly epoch: number;
}

export interface ClusterStatus {
  readonly models: readonly ModelStatusRow[];
  /** Variants of families; a family has one row among the models. */
  readonly variants: readonly VariantRow[];
  readonly pipelines: readonly PipelineRow[];
  readonly accelerators: readonly TopGpu[];
  readonly rankers: readonly RankerRow[];
  /** Turns of the event loops that schedule. */
  readonly turns: readonly SchedulingTurns[];
  /** Shares of requests by version, in sentences, with failed rollouts. */
  readonly rollouts: readonly string[];
}

export function statusOf(
  view: ClusterView,
  models: readonly ListedModel[],
  routes: readonly Route[] = [],
): ClusterStatus {
  const actors = view.actors();
  const ofRole = (role: string): HeardActor[] => actors.filter(({ beat }) => beat.role === role);
  const [ingresses, batchers] = [ofRole("ingress"), ofRole("batcher")];
  return {
    models: models.map((model) => modelRow(model, ingresses, batchers)),
    variants: variantRows(ingresses),
    pipelines: pipelineRows(ingresses),
    accelerators: actors.flatMap(gpusOf).sort((a, b) => a.gpu - b.gpu),
    rankers: ofRole("ranker").map(({ key, beat }) => ({
      actor: actorToken(key),
      host: beat.host,
      subCluster: beat.subCluster ?? DEFAULT_SUB_CLUSTER,
      leads: (beat.epoch ?? 0) > 0,
      epoch: beat.epoch ?? 0,
    })),
    turns: schedulingTurns(actors),
    rollouts: routeLines(routes, models),
  };
}

function modelRow({ spec, status }: ListedModel, ingresses: HeardActor[], batchers: HeardActor[]): ModelStatusRow {
  const read =
    (name: string) =>
    (stats: StatsReported): number =>
      threadsOf(stats, spec.number).reduce((sum, { figures }) => sum + (figures[name] ?? 0), 0);
  const rate = (actors: readonly HeardActor[], name: string): number | undefined =>
    sumOf(actors.map((actor) => rateOf(actor, read(name))));
  const [ok, late] = [rate(ingresses, "ok"), rate(ingresses, "late")];
  const [items, batches] = [rate(batchers, "items") ?? 0, rate(batchers, "batches") ?? 0];
  const latest = (actor: HeardActor, name: string): number => {
    const stats = latestOf(actor);
    return stats === undefined ? 0 : read(name)(stats);
  };
  const threads = batchers.flatMap((actor) => {
    const stats = latestOf(actor);
    return stats === undefined ? [] : threadsOf(stats, spec.number);
  });
  const reserves = threads.map(({ figures }) => ({
    reserveUs: figures["reserveUs"] ?? figures["marginUs"] ?? 0,
    beyondReserve: (figures["beyondPerMillion"] ?? 0) / 1e6,
  }));
  const isStalled = status?.state === "ready" && batchers.some((actor) => latest(actor, "stalled") > 0);
  return {
    name: spec.name,
    state: isStalled ? "stalled" : (status?.state ?? "waiting"),
    reason: isStalled ? STALLED : (status?.reason ?? ""),
    offered: rate(ingresses, "offered"),
    good: ok === undefined ? undefined : ok - (late ?? 0),
    late,
    refused: causes(ingresses, spec.number, (name) => rate(ingresses, name) ?? 0),
    queue: batchers.reduce((sum, actor) => sum + latest(actor, "queued"), 0),
    batchMean: batches > 0 ? items / batches : undefined,
    p99Us: Math.max(0, ...ingresses.map((actor) => latest(actor, "p99Us"))),
    ...reserves.reduce((most, one) => (one.reserveUs > most.reserveUs ? one : most), {
      reserveUs: 0,
      beyondReserve: 0,
    }),
  };
}

/** A model has a ModelThread for each of its buckets. */
const threadsOf = (stats: StatsReported, modelNumber: number): NonNullable<StatsReported["perThread"]> =>
  (stats.perThread ?? []).filter(({ thread }) => modelNumberOf(thread) === modelNumber);

const REFUSED = "refused.TUTTI_";
const STALLED =
  "it answered none of its requests within the last 15 s, though accelerators serve, and was started anew; `tutti logs` of its batcher says when";

function causes(
  ingresses: readonly HeardActor[],
  modelNumber: number,
  rate: (name: string) => number,
): Record<string, number> {
  const names = new Set<string>();
  for (const actor of ingresses) {
    const stats = latestOf(actor);
    for (const { figures } of stats === undefined ? [] : threadsOf(stats, modelNumber))
      for (const name of Object.keys(figures)) if (name.startsWith(REFUSED)) names.add(name);
  }
  const rates = [...names].map((name) => [name.slice(REFUSED.length), rate(name)] as const);
  return Object.fromEntries(rates.filter(([, perSecond]) => perSecond > 0));
}

export function renderClusterStatus(status: ClusterStatus): string {
  const { models, accelerators, rankers, turns, rollouts } = status;
  const table = renderTable(
    ["model", "state", "offered/s", "good/s", "refused/s", "queue", "batch", "p99", "kept", "refused because"],
    models.map((row) => [
      row.name,
      row.state,
      whole(row.offered),
      whole(row.good),
      whole(Object.values(row.refused).reduce((sum, perSecond) => sum + perSecond, 0)),
      String(row.queue),
      row.batchMean === undefined ? "-" : row.batchMean.toFixed(1),
      row.p99Us === 0 ? "-" : milliseconds(row.p99Us),
      keptText(row),
      Object.entries(row.refused)
        .map(([cause, perSecond]) => `${cause} ${whole(perSecond)}`)
        .join(", "),
    ]),
  );
  const reasons = models.filter(({ state, reason }) => state !== "ready" && reason !== "");
  const parts = [
    models.length === 0 ? "No model is loaded." : table,
    ...reasons.map(({ name, reason }) => `${name}: ${reason}`),
    ...rollouts,
    ...renderParts(status.variants, status.pipelines),
    "",
    accelerators.length === 0 ? "No executor is there." : renderGpus(accelerators),
    "",
    ...rankerLines(rankers),
    ...turns.map((one) => `Turns of the event loop of ${one.role} ${one.actor}, last minute: ${turnsText(one)}.`),
  ];
  return parts.join("\n");
}

const keptText = ({ reserveUs, beyondReserve }: ModelStatusRow): string =>
  reserveUs === 0 ? "-" : `${milliseconds(reserveUs)} (${(100 * beyondReserve).toFixed(1)} % end later)`;

/** One line for each sub-cluster if there are several. */
function rankerLines(rankers: readonly RankerRow[]): string[] {
  const names = [...new Set(rankers.map(({ subCluster }) => subCluster))].sort();
  if (names.length < 2) return [`Rankers: ${rankerLine(rankers)}`];
  return names.map((name) => `Rankers of ${name}: ${rankerLine(rankers.filter((one) => one.subCluster === name))}`);
}

function rankerLine(rankers: readonly RankerRow[]): string {
  const leaders = rankers.filter(({ leads }) => leads);
  const spares = rankers.filter(({ leads }) => !leads).map(({ actor, host }) => `${actor} on ${host}`);
  const leading =
    leaders.length === 0
      ? "Nobody leads."
      : leaders.map(({ actor, host, epoch }) => `${actor} on ${host} leads, epoch ${epoch}.`).join(" ");
  return `${leading} ${spares.length === 0 ? "There is no spare." : `Spares: ${spares.join(", ")}.`}`;
}
