/** `tutti actors`: all actors that send heartbeats, and agents' processes that have no actor now. */
import type { AgentAnswered } from "@tutti/protocol";
import { actorToken } from "@tutti/units";
import { renderTable } from "../table.ts";
import {
  type ClusterView,
  type Figures,
  type HeardActor,
  latestOf,
  offsetUs,
  subClusterOf,
  uptimeUs,
} from "./cluster-view.ts";
import { healthOf, medianOf, processOf, processesByActor } from "./health.ts";

export interface ActorRow {
  readonly actor: string;
  readonly role: string;
  readonly host: string;
  readonly pid: number;
  /** The process's name at its agent; "": no agent manages it. */
  readonly process: string;
  readonly uptimeUs: number;
  /** Release that it runs; undefined: it has not said so. */
  readonly release: string | undefined;
  /** The leading ranker's epoch, or the newest that an executor accepts. */
  readonly epoch: number | undefined;
  readonly duty: string;
  /** Set for rankers and executors. */
  readonly subCluster: string | undefined;
  /** The accelerators that it drives. */
  readonly gpus: readonly number[];
  /** Undefined: no agent manages it. */
  readonly restarts: number | undefined;
  /** Requests that wait or run at this actor. */
  readonly queue: number;
  readonly health: readonly string[];
}

export function actorRows(view: ClusterView, agents: readonly AgentAnswered[]): ActorRow[] {
  const actors = view.actors();
  const processes = processesByActor(agents);
  const offsetMedianUs = medianOf(actors.map(offsetUs));
  const rows = actors.map((actor): ActorRow => {
    const process = processOf(actor, processes);
    return {
      actor: actorToken(actor.key),
      role: actor.beat.role,
      host: actor.beat.host,
      pid: actor.beat.pid,
      process: process?.name ?? "",
      uptimeUs: uptimeUs(actor),
      release: latestOf(actor)?.release,
      epoch: epochOf(actor),
      duty: dutyOf(actor),
      subCluster: subClusterOf(actor),
      gpus: (actor.beat.gpus ?? []).map(({ gpu }) => gpu),
      restarts: process?.restarts,
      queue: queueOf(actor),
      health: healthOf(actor, { silentMs: view.silentMs(actor), offsetMedianUs, process }),
    };
  });
  return [...rows, ...absent(agents, new Set(rows.map(({ actor }) => actor)))];
}

const PHASES = {
  parked: "drained",
  waiting: "died, starts again",
  "given-up": "given up: it dies at every start",
  starting: "starting",
  ready: "not heard",
} as const;

function absent(agents: readonly AgentAnswered[], heard: ReadonlySet<string>): ActorRow[] {
  const silent = agents.flatMap(({ host, processes }) =>
    processes.filter(({ actor }) => !heard.has(actor)).map((process) => ({ host, ...process })),
  );
  return silent.map(({ host, name, role, pid, actor, phase, restarts }) => ({
    actor,
    role,
    host,
    pid,
    process: name,
    uptimeUs: 0,
    release: undefined,
    epoch: undefined,
    duty: "",
    subCluster: undefined,
    gpus: [],
    restarts,
    queue: 0,
    health: [PHASES[phase]],
  }));
}

const HEADINGS = ["actor", "role", "process", "host", "pid", "up", "epoch", "duty", "restarts", "queue", "health"];

export function renderActors(rows: readonly ActorRow[]): string {
  // With a single sub-cluster its name carries no information.
  const several = new Set(rows.flatMap(({ subCluster }) => subCluster ?? [])).size > 1;
  return renderTable(
    HEADINGS,
    rows.map((row) => [
      row.actor === "" ? "-" : row.actor,
      row.role,
      row.process === "" ? "-" : row.process,
      row.host,
      row.pid === 0 ? "-" : String(row.pid),
      row.uptimeUs === 0 ? "-" : formatUptime(row.uptimeUs),
      row.epoch === undefined ? "-" : String(row.epoch),
      several && row.subCluster !== undefined ? `${row.duty} in ${row.subCluster}` : row.duty,
      row.restarts === undefined ? "-" : String(row.restarts),
      String(row.queue),
      row.health.join(", "),
    ]),
  );
}

export function formatUptime(us: number): string {
  const seconds = Math.floor(us / 1e6);
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7_200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3_600)} h` : `${Math.floor(seconds / 86_400)} d`;
}

function epochOf(actor: HeardActor): number | undefined {
  if (actor.beat.role === "ranker") return actor.beat.epoch;
  return actor.beat.role === "executor" ? latestOf(actor)?.figures["epoch"] : undefined;
}

export function dutyOf({ beat }: HeardActor): string {
  if (beat.role === "ranker") return (beat.epoch ?? 0) > 0 ? "leads" : "spare";
  if (beat.gpus === undefined || beat.gpus.length === 0) return "";
  const ids = beat.gpus.map(({ gpu }) => gpu);
  const listed = ids.length > 4 ? `${ids[0]}-${ids.at(-1)}` : ids.join(" ");
  return `gpu ${listed} ${beat.gpus[0]?.type ?? ""}`.trimEnd();
}

/** Requests by role: pending at an ingress, queued at a batcher, accepted by an executor. */
function queueOf(actor: HeardActor): number {
  const stats = latestOf(actor);
  const sum = (list: readonly { readonly figures: Figures }[] | undefined, name: string): number =>
    (list ?? []).reduce((total, { figures }) => total + (figures[name] ?? 0), 0);
  if (actor.beat.role === "ingress") return stats?.figures["held"] ?? 0;
  if (actor.beat.role === "batcher") return sum(stats?.perThread, "queued");
  return actor.beat.role === "executor" ? sum(stats?.perGpu, "accepted") : 0;
}
