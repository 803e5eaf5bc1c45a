/** `tutti top`: processes by processor time, each with its actors, and accelerators by busy share. */
import { type GpuId, actorToken } from "@tutti/units";
import { renderTable } from "../table.ts";
import { type ClusterView, type HeardActor, latestOf, rateOf } from "./cluster-view.ts";

export interface TopActor {
  readonly actor: string;
  readonly role: string;
  readonly host: string;
  readonly pid: number;
  /** The figures of its process, if this is the actor that reports them; undefined for the process's other actors. */
  readonly rssBytes: number | undefined;
  /** Cores; undefined until there are two reports, too. */
  readonly cpu: number | undefined;
  /** Since the previous report. */
  readonly turnP99Us: number | undefined;
  readonly turnMaxUs: number | undefined;
  readonly messagesPerSecond: number | undefined;
  readonly bytesPerSecond: number | undefined;
}

export interface TopGpu {
  readonly gpu: GpuId;
  readonly executor: string;
  readonly host: string;
  readonly type: string;
  readonly subCluster: string;
  readonly serving: boolean;
  /** Share of the time in which it runs batches. */
  readonly busy: number | undefined;
  readonly batchesPerSecond: number | undefined;
  readonly itemsPerSecond: number | undefined;
}

export interface Top {
  readonly actors: readonly TopActor[];
  readonly accelerators: readonly TopGpu[];
}

export function topOf(view: ClusterView): Top {
  const heard = view.actors();
  const processes = Map.groupBy(heard.map(topActor), ({ host, pid }) => `${host}/${pid}`);
  const reporter = (actors: readonly TopActor[]): TopActor => actors.find(reportsProcess) ?? actors[0]!;
  const actors = [...processes.values()]
    .map((all) => all.sort((a, b) => Number(reportsProcess(b)) - Number(reportsProcess(a))))
    .sort((a, b) => byUse(reporter(a), reporter(b)))
    .flat();
  const accelerators = heard.flatMap(gpusOf).sort((a, b) => (b.busy ?? -1) - (a.busy ?? -1) || a.gpu - b.gpu);
  return { actors, accelerators };
}

/** A process's figures are reported once, by its first actor. */
const reportsProcess = ({ rssBytes }: TopActor): boolean => rssBytes !== undefined;

const byUse = (a: TopActor, b: TopActor): number =>
  (b.cpu ?? -1) - (a.cpu ?? -1) || (b.rssBytes ?? 0) - (a.rssBytes ?? 0);

function topActor(actor: HeardActor): TopActor {
  const figures = latestOf(actor)?.figures ?? {};
  const rate = (...names: string[]): number | undefined =>
    names.every((name) => figures[name] !== undefined)
      ? rateOf(actor, (stats) => names.reduce((sum, name) => sum + (stats.figures[name] ?? 0), 0))
      : undefined;
  const cpuUs = rate("cpuUs");
  return {
    actor: actorToken(actor.key),
    role: actor.beat.role,
    host: actor.beat.host,
    pid: actor.beat.pid,
    cpu: cpuUs === undefined ? undefined : cpuUs / 1e6,
    rssBytes: figures["rssBytes"],
    turnP99Us: figures["turnP99Us"],
    turnMaxUs: figures["turnMaxUs"],
    messagesPerSecond: rate("messagesIn", "messagesOut"),
    bytesPerSecond: rate("bytesIn", "bytesOut"),
  };
}

/** The accelerators of an executor; `tutti status` uses them, too. */
export function gpusOf(actor: HeardActor): TopGpu[] {
  return (actor.beat.gpus ?? []).map(({ gpu, serving, type, subCluster }) => {
    const rate = (name: string): number | undefined =>
      rateOf(actor, (stats) => stats.perGpu?.find((one) => one.gpu === gpu)?.figures[name] ?? 0);
    const busyUs = rate("busyUs");
    return {
      gpu,
      executor: actorToken(actor.key),
      host: actor.beat.host,
      type,
      subCluster,
      serving,
      busy: busyUs === undefined ? undefined : Math.min(1, busyUs / 1e6),
      batchesPerSecond: rate("batches"),
      itemsPerSecond: rate("items"),
    };
  });
}

const ACCELERATORS_SHOWN = 16;

export function renderTop({ actors, accelerators }: Top): string {
  const own = renderTable(
    ["actor", "role", "host", "pid", "CPU", "memory", "turn p99", "turn max", "msg/s", "MB/s"],
    actors.map((row) => [row.actor, row.role, row.host, String(row.pid), ...processCells(row)]),
  );
  const shown = accelerators.slice(0, ACCELERATORS_SHOWN);
  const more = accelerators.length - shown.length;
  return [own, "", renderGpus(shown), ...(more > 0 ? [`${more} accelerators more, less busy`] : [])].join("\n");
}

/** Empty for an actor whose process's figures stand with another one. */
function processCells(row: TopActor): string[] {
  const { rssBytes, cpu, turnP99Us, turnMaxUs, messagesPerSecond, bytesPerSecond } = row;
  if (rssBytes === undefined) return ["", "", "", "", "", ""];
  return [
    percent(cpu),
    `${(rssBytes / 1e6).toFixed(0)} MB`,
    milliseconds(turnP99Us ?? 0),
    milliseconds(turnMaxUs ?? 0),
    whole(messagesPerSecond),
    bytesPerSecond === undefined ? "-" : (bytesPerSecond / 1e6).toFixed(1),
  ];
}

export function renderGpus(gpus: readonly TopGpu[]): string {
  const several = new Set(gpus.map(({ subCluster }) => subCluster)).size > 1;
  const stateOf = ({ serving, subCluster }: TopGpu): string =>
    `${serving ? "serves" : "not granted"}${several ? ` in ${subCluster}` : ""}`;
  return renderTable(
    ["gpu", "busy", "batches/s", "items/s", "executor", "host", "engine", "state"],
    gpus.map((row) => [
      String(row.gpu),
      percent(row.busy),
      whole(row.batchesPerSecond),
      whole(row.itemsPerSecond),
      row.executor,
      row.host,
      row.type,
      stateOf(row),
    ]),
  );
}

export const whole = (value: number | undefined): string =>
  value === undefined ? "-" : Math.round(value).toLocaleString("en-US");
export const percent = (share: number | undefined): string =>
  share === undefined ? "-" : `${(100 * share).toFixed(0)} %`;
export const milliseconds = (us: number): string => `${(us / 1_000).toFixed(1)} ms`;
