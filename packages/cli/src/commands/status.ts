import { Heartbeat, type Role, StatsReported, subjectsOf } from "@tutti/protocol";
import { type ActorKey, actorToken } from "@tutti/units";
import { FrameReader } from "@tutti/wire";
import type { ClusterOptions } from "../cluster.ts";
import { withCluster } from "../connection.ts";
import { CommandError, EXIT, usageError } from "../failure.ts";
import { renderTable } from "../table.ts";

export interface StatusCommandOptions extends ClusterOptions {
  readonly json?: boolean;
  readonly wait: string;
}

interface Actor {
  beat: Heartbeat;
  stats: StatsReported | undefined;
}

/** `tutti status`: who is there, and what they say of themselves. Actors beat several times a second and report once. */
export function status(options: StatusCommandOptions): Promise<void> {
  const waitMs = Number(options.wait) * 1000;
  if (!(waitMs > 0)) throw usageError(`--wait ${options.wait}: a number of seconds`);
  return withCluster({ ...options, name: "tutti-status" }, async ({ control }, { cluster }) => {
    const actors = new Map<ActorKey, Actor>();
    const reader = new FrameReader()
      .on(Heartbeat, (beat) => {
        if (beat.leaving) actors.delete(beat.key);
        else actors.set(beat.key, { stats: actors.get(beat.key)?.stats, beat });
      })
      .on(StatsReported, (stats) => {
        const actor = actors.get(stats.key);
        if (actor !== undefined) actor.stats = stats;
      });
    const subjects = subjectsOf(cluster);
    const listening = [subjects.beat("*"), subjects.stats("*")].map((subject) =>
      control.subscribe(subject, (delivery) => void reader.read(delivery.payload)),
    );
    await new Promise((resolve) => setTimeout(resolve, waitMs));
    for (const subscription of listening) subscription.stop();
    if (actors.size === 0) {
      throw new CommandError(`nobody of the cluster "${cluster}" was heard within ${options.wait} s`, EXIT.unavailable);
    }
    const sorted = [...actors.values()].sort((a, b) => order(a) - order(b) || a.beat.startedAt - b.beat.startedAt);
    process.stdout.write(`${options.json === true ? JSON.stringify(sorted.map(asJson)) : render(sorted)}\n`);
  });
}

const ORDER: readonly Role[] = ["ingress", "batcher", "ranker", "executor", "profiler", "planner", "gateway"];
const order = (actor: Actor): number => ORDER.indexOf(actor.beat.role);

function render(actors: readonly Actor[]): string {
  const rows = actors.map(({ beat, stats }) => {
    const seconds = Math.round((beat.sentAt - beat.startedAt) / 1e6);
    return [beat.role, actorToken(beat.key), `${beat.host}:${beat.pid}`, `${seconds} s`, duty(beat), figures(stats)];
  });
  return renderTable(["role", "actor", "process", "up", "duty", "figures"], rows);
}

function duty(beat: Heartbeat): string {
  if (beat.role === "ranker") return (beat.epoch ?? 0) > 0 ? `leads, epoch ${beat.epoch}` : "spare";
  if (beat.gpus === undefined) return "";
  const ids = beat.gpus.map(({ gpu, serving }) => (serving ? String(gpu) : `${gpu} (not yet)`));
  const [first] = beat.gpus;
  return `gpu ${ids.length > 4 ? `${ids[0]}-${ids.at(-1)}` : ids.join(" ")} ${first?.type ?? ""}`.trimEnd();
}

const SHOWN: Partial<Record<Role, readonly string[]>> = {
  ingress: ["requests", "ok", "refused", "late"],
  batcher: ["threads", "arrivals", "batches", "items"],
  ranker: ["gpus", "grants", "expired"],
};

function figures(stats: StatsReported | undefined): string {
  if (stats === undefined) return "";
  const gpus = stats.perGpu ?? [];
  const sum = (name: string): number => gpus.reduce((total, gpu) => total + (gpu.figures[name] ?? 0), 0);
  if (gpus.length > 0) return `batches ${sum("batches")}, items ${sum("items")}`;
  return (SHOWN[stats.role] ?? []).map((name) => `${name} ${stats.figures[name] ?? 0}`).join(", ");
}

function asJson({ beat, stats }: Actor): unknown {
  const { key, role, host, pid, startedAt, sentAt, epoch, gpus } = beat;
  return { actor: actorToken(key), role, host, pid, startedAt, sentAt, epoch, gpus, stats };
}
