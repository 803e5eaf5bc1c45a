/** Checks of a cluster as this machine and these credentials see it. */
import { TuttiClient } from "@tutti/client";
import { type ListedModel, ModelRegistry } from "@tutti/client/registries";
import type { NatsConnection } from "@tutti/bus-nats";
import { TUTTI_RELEASE, TuttiError } from "@tutti/protocol";
import { actorToken } from "@tutti/units";
import type { Cluster } from "../cluster/find-cluster.ts";
import { busInNameOf, openConnection } from "../cluster/connection.ts";
import { ClusterView, latestOf, offsetUs } from "../operator/cluster-view.ts";
import { healthOf, medianOf } from "../operator/health.ts";
import { type SchedulingTurns, schedulingTurns, turnsText } from "../operator/scheduling-turns.ts";
import type { Finding } from "./finding.ts";

export interface HeardCluster {
  readonly url: string;
  readonly serverVersion: string;
  /** `NatsConnection.warning`. */
  readonly warning?: string | undefined;
  readonly payloadMax: number;
  readonly connectMs: number;
  /** Subjects that NATS refused to these credentials. */
  readonly denied: readonly string[];
  /** The models in the store; a string: the text of the error. */
  readonly models: readonly ListedModel[] | string;
  /** Time until a request for a model that doesn't exist was refused; undefined: no refusal came. */
  readonly answeredMs: number | undefined;
  readonly actors: readonly HeardActor[];
  readonly turns: readonly SchedulingTurns[];
}
export interface HeardActor {
  readonly name: string;
  readonly role: string;
  readonly host: string;
  readonly leads: boolean;
  /** Undefined: it has not said so. */
  readonly release: string | undefined;
  readonly health: readonly string[];
  /**
   * Clock offset from the median of all actors, in microseconds: positive if it is ahead. Heartbeats arrive a fraction
   * of a millisecond late.
   */
  readonly aheadUs: number;
}

const ROLES_NEEDED = ["ingress", "batcher", "ranker", "executor", "profiler"] as const;
const ANSWER_MS = 2_000;
/** Its name is reserved, so that no application hears the answer. */
const APP = "doctor";
/** Bounds on clock skew, relative to the bound that hosts are assumed to keep (docs/architecture.md, 5). */
const SKEW_WARN_US = 2_000;
const SKEW_FAIL_US = 50_000;
/** Bounds on turns of an event loop that schedules, the same as those of the alert (infra/dashboards/rules.ts). */
const TURN_MAX_US = 3_000;
const TURN_P999_US = 1_000;
const PAYLOAD_GOOD = 8 * 2 ** 20;

/** @param isNamed - the cluster was named on the command line: then it must be there */
export async function lookAtCluster(cluster: Cluster, isNamed: boolean, waitMs: number): Promise<Finding[]> {
  const startedAt = performance.now();
  let nats: NatsConnection;
  try {
    nats = await openConnection({
      servers: cluster.servers,
      credentials: cluster.credentials,
      tlsCa: cluster.tlsCa,
      name: "tutti-doctor",
    });
  } catch (error) {
    return [unreachable(cluster, error as Error, isNamed)];
  }
  try {
    const connectMs = performance.now() - startedAt;
    return judgeCluster(await listen(nats, cluster, { connectMs, waitMs }));
  } finally {
    await nats.close();
  }
}

function unreachable({ credentials }: Cluster, error: Error, isNamed: boolean): Finding {
  const isForbidden = error instanceof TuttiError && error.code === "TUTTI_FORBIDDEN";
  return {
    check: "connection",
    state: "fail",
    found: error.message,
    why: "Without it nothing of the cluster can be seen, and no command works.",
    next: isForbidden
      ? `name ${credentials === undefined ? "" : "other "}credentials with --creds or TUTTI_CREDS: \`tutti auth init\` makes them, creds/admin.nk is the operator's`
      : "look whether a NATS server runs there (`tutti up` starts one here), and whether a firewall lets its port through",
    isUnreachable: isNamed && !isForbidden,
  };
}

async function listen(
  nats: NatsConnection,
  { cluster, servers }: Cluster,
  { connectMs, waitMs }: { readonly connectMs: number; readonly waitMs: number },
): Promise<HeardCluster> {
  const denied = new Set<string>();
  const watching = [nats.control, nats.bulk].map((bus) =>
    bus.onStatus((status) => status.kind === "permission-denied" && denied.add(status.subject)),
  );
  const view = new ClusterView();
  const listening = view.listen(nats.control, cluster);
  const [models, answeredMs] = await Promise.all([
    new ModelRegistry(nats.store).list().catch((error: Error) => error.message),
    askNobody(nats),
    view.until(() => view.hasReports(2), waitMs),
  ]);
  for (const one of [listening, ...watching]) one.stop();
  const heard = view.actors();
  const median = medianOf(heard.map(offsetUs));
  return {
    url: servers.join(","),
    serverVersion: nats.serverVersion,
    warning: nats.warning,
    payloadMax: nats.control.payloadMax,
    connectMs,
    denied: [...denied].sort(),
    models,
    answeredMs,
    turns: schedulingTurns(heard),
    actors: heard.map((actor) => ({
      name: actorToken(actor.key),
      role: actor.beat.role,
      host: actor.beat.host,
      leads: actor.beat.role === "ranker" && (actor.beat.epoch ?? 0) > 0,
      release: latestOf(actor)?.release,
      health: healthOf(actor, { silentMs: view.silentMs(actor), offsetMedianUs: median, process: undefined }),
      aheadUs: median - offsetUs(actor),
    })),
  };
}

/**
 * Times a request for a model that doesn't exist. The refusal has passed through an ingress, so it counts as an answer.
 */
async function askNobody({ bulk }: NatsConnection): Promise<number | undefined> {
  const client = new TuttiClient(busInNameOf(APP, bulk), { app: APP, timeoutMs: ANSWER_MS });
  const startedAt = performance.now();
  try {
    await client.infer("no-such-model-of-the-doctor", {});
  } catch (error) {
    if (error instanceof TuttiError && error.code !== "TUTTI_UNAVAILABLE") return performance.now() - startedAt;
  } finally {
    client.close();
  }
  return undefined;
}

export function judgeCluster(heard: HeardCluster): Finding[] {
  const findings = [judgeConnection(heard), judgeRights(heard)];
  if (heard.denied.length === 0) findings.push(judgeStore(heard), judgeActors(heard));
  const settled = heard.turns.filter(({ isSettled }) => isSettled);
  if (settled.length > 0) findings.push(judgeTurns(settled));
  if (heard.actors.some(({ release }) => release !== undefined)) findings.push(judgeReleases(heard));
  if (heard.actors.length > 1) findings.push(judgeClocks(heard));
  return findings;
}

function judgeConnection({ url, serverVersion, warning, payloadMax, connectMs }: HeardCluster): Finding {
  const found = `${url}, nats-server ${serverVersion}, in ${connectMs.toFixed(0)} ms; messages up to ${(payloadMax / 2 ** 20).toFixed(0)} MB`;
  if (payloadMax >= PAYLOAD_GOOD) {
    if (warning === undefined) return { check: "connection", state: "ok", found };
    return { check: "connection", state: "warn", found, why: warning, next: "upgrade the NATS servers, one at a time" };
  }
  return {
    check: "connection",
    state: "warn",
    found,
    why: `Requests and answers that are larger are refused (TOO_LARGE); a picture of 576 × 576 takes 4 MB.${warning === undefined ? "" : ` And ${warning}.`}`,
    next: "set max_payload: 8MB on the servers: infra/nats has a configuration, `tutti auth init` writes one",
  };
}

function judgeRights({ denied, answeredMs }: HeardCluster): Finding {
  const check = "rights";
  if (denied.length === 0)
    return { check, state: "ok", found: "an operator's: may see everything and ask in every application's name" };
  const asks =
    answeredMs === undefined ? 'and no request as "doctor" was answered' : 'requests as "doctor" are answered';
  return {
    check,
    state: "warn",
    found: `these credentials may not use ${denied.slice(0, 3).join(", ")}${denied.length > 3 ? ` and ${denied.length - 3} more` : ""}; ${asks}`,
    why: "What actors say is for operators; an application's credentials are for its own requests only, and that is as it should be.",
    next: "for the rest of this examination name the operator's: --creds creds/admin.nk",
  };
}

function judgeStore({ models }: HeardCluster): Finding {
  const check = "JetStream";
  if (typeof models === "string")
    return {
      check,
      state: "fail",
      found: models,
      why: "Models, leases and plans lie there: nothing can be loaded, and nobody can take over, until it answers.",
      next: "enable it (`jetstream { store_dir: … }`, for the account too) and look at its disk; in a cluster a majority of servers must be there",
    };
  const unready = models.filter(({ status }) => status?.state !== "ready");
  const found = `answers; ${models.length} models, of which ${models.length - unready.length} are ready`;
  if (unready.length === 0) return { check, state: "ok", found };
  const told = unready
    .slice(0, 3)
    .map(
      ({ spec, status }) => `${spec.name}: ${status?.state ?? "unknown"}${status?.reason ? `, ${status.reason}` : ""}`,
    );
  return {
    check,
    state: "warn",
    found,
    why: `Requests for the others are refused (NOT_READY). ${told.join("; ")}.`,
    next: "`tutti models` says why of each",
  };
}

function judgeActors({ actors, answeredMs }: HeardCluster): Finding {
  const check = "actors";
  const count = (role: string): number => actors.filter((actor) => actor.role === role).length;
  const missing = ROLES_NEEDED.filter((role) => count(role) === 0);
  if (missing.length > 0)
    return {
      check,
      state: actors.length === 0 ? "warn" : "fail",
      found: actors.length === 0 ? "nobody was heard" : `no ${missing.join(", no ")}`,
      why: "A request needs an ingress, a batcher, a ranker that leads and an executor; a model needs the profiler once.",
      next: `start ${missing.length > 1 ? "them" : "it"}: \`tutti up --nats …\` all of them, \`tutti run ${missing[0]}\` one; --cluster names another deployment`,
    };
  if (!actors.some(({ leads }) => leads))
    return {
      check,
      state: "fail",
      found: "no ranker leads",
      why: "Nobody grants accelerators: every request waits until its deadline.",
      next: "`tutti logs ranker` says what keeps them from the lease",
    };
  const found = `${actors.length} are there${answeredMs === undefined ? "" : `; an ingress answered after ${answeredMs.toFixed(1)} ms`}`;
  const ill = actors.filter(({ health }) => health[0] !== "ok");
  if (ill.length === 0 && answeredMs !== undefined) return { check, state: "ok", found };
  const told = ill.slice(0, 3).map(({ role, name, health }) => `${role} ${name}: ${health.join(", ")}`);
  const why = answeredMs === undefined ? ["No ingress answered a request."] : [];
  return {
    check,
    state: "warn",
    found,
    why: [...why, ...told].join(" "),
    next: "`tutti actors` lists them all; `tutti restart <actor>` replaces one without refusing requests",
  };
}

/** @param turns - at least one */
function judgeTurns(turns: readonly SchedulingTurns[]): Finding {
  const check = "event loop";
  const worst = turns.find(({ maxUs, p999Us }) => maxUs > TURN_MAX_US || p999Us > TURN_P999_US);
  const { role, actor } = worst ?? turns[0]!;
  const found = `turns in the last minute, ${role} ${actor}: ${turnsText(worst ?? turns[0]!)}`;
  if (worst === undefined) return { check, state: "ok", found };
  return {
    check,
    state: "warn",
    found,
    why: "What comes during a turn waits for its end: grants and answers are late by as much, and batches smaller.",
    next: "look for neighbours on the processors; `tutti up --layout spread` gives batchers and rankers processes of their own",
  };
}

/** Names the releases that meet in the cluster, this command's among them. */
function judgeReleases({ actors }: HeardCluster): Finding {
  const check = "releases";
  const byRelease = new Map<string, string[]>();
  for (const { release = "older", role, name } of actors)
    byRelease.set(release, [...(byRelease.get(release) ?? []), `${role} ${name}`]);
  if (byRelease.size === 1 && byRelease.has(TUTTI_RELEASE))
    return { check, state: "ok", found: `all actors are of ${TUTTI_RELEASE}, as this command is` };
  const told = [...byRelease].map(
    ([release, names]) =>
      `${release} (${names.slice(0, 3).join(", ")}${names.length > 3 ? ` and ${names.length - 3} more` : ""})`,
  );
  return {
    check,
    state: "warn",
    found: `this command is of ${TUTTI_RELEASE}, and the actors are of ${told.join(" and of ")}`,
    why: "Neighbouring releases work together while one replaces the other; others, or for longer, are not tested.",
    next: "finish the upgrade, or go back: docs/upgrades.md says in which order",
  };
}

/** All processes of a host share one clock: only differences between hosts matter. */
function judgeClocks({ actors }: HeardCluster): Finding {
  const check = "clocks";
  const hosts = new Set(actors.map(({ host }) => host)).size;
  const worst = actors.reduce((a, b) => (Math.abs(b.aheadUs) > Math.abs(a.aheadUs) ? b : a));
  const off = Math.abs(worst.aheadUs);
  const found = `${actors.length} actors on ${hosts} host${hosts > 1 ? "s" : ""} agree within ${(off / 1_000).toFixed(1)} ms`;
  if (off <= SKEW_WARN_US || (hosts === 1 && off <= SKEW_FAIL_US)) return { check, state: "ok", found };
  return {
    check,
    state: off > SKEW_FAIL_US ? "fail" : "warn",
    found: `${worst.role} ${worst.name} on ${worst.host} is ${(off / 1_000).toFixed(1)} ms ${worst.aheadUs > 0 ? "ahead of" : "behind"} the others (as heard: a busy machine looks late)`,
    why: "Deadlines and grants are instants: an accelerator whose clock is late starts late by as much, and grants look expired where it is ahead. The difference counts as part of d_ctrl.",
    next: "run chrony or another NTP client on every host, against the same source; processes slew to it without being restarted",
  };
}
