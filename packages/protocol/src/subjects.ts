import { type ActorKey, actorToken } from "@tutti/units";

/** The table of internal subjects. A change that breaks an old reader gets a new version, and both run side by side. */
export const PROTOCOL_VERSION = "v1";

export const ROLES = ["ingress", "batcher", "ranker", "executor", "profiler", "planner", "gateway", "jobs"] as const;
export type Role = (typeof ROLES)[number];
export const isRole = (text: string): text is Role => (ROLES as readonly string[]).includes(text);

const ACTORS_KEPT = 4_096;

/** `infer.<target>.<app>`: publisher to ingress (queue group `ingress`). */
export const INFER_SUBJECT = "infer.*.*";
export const INFER_QUEUE = "ingress";
/** `cancel.<app>`: publisher to every ingress; the payload is the reply subject of the request to cancel. */
export const CANCEL_SUBJECT = "cancel.*";
export const cancelSubject = (app: string): string => `cancel.${app}`;
export const inferSubject = (target: string, app: string): string => `infer.${target}.${app}`;

/**
 * Whether an answer may go to this reply subject. The server checks no permission on it, so a publisher could name
 * another's inbox: with application credentials (`app`), replies must lie below `_INBOX.<app>.`; with `any`
 * (development on loopback), below `_INBOX.`.
 */
export function mayReply(scope: ReplyScope, app: string, reply: string): boolean {
  return reply.startsWith(scope === "app" ? `_INBOX.${app}.` : "_INBOX.");
}
export type ReplyScope = "app" | "any";

export const subjectsOf = (cluster: string) => {
  const prefix = `tutti.${PROTOCOL_VERSION}.${cluster}`;
  // Cached: every record that is sent needs one, and writing a key in base 36 costs more than looking it up.
  const actors = new Map<ActorKey, string>();
  return {
    prefix,
    /** Control frames for one actor. */
    actor: (key: ActorKey): string => {
      let subject = actors.get(key);
      if (subject === undefined) {
        if (actors.size >= ACTORS_KEPT) actors.clear();
        actors.set(key, (subject = `${prefix}.to.${actorToken(key)}`));
      }
      return subject;
    },
    /**
     * Subscribed by an actor that ignores what it hears. The server answers a request here as soon as there is no
     * subscriber. It is separate from `actor`, so that a listener on control frames doesn't make a dead actor look
     * alive.
     */
    alive: (key: ActorKey): string => `${prefix}.alive.${actorToken(key)}`,
    /** Control frames for every actor of a role. */
    role: (role: Role): string => `${prefix}.all.${role}`,
    /** Heartbeats of a role (frames of Heartbeat records). */
    beat: (role: Role | "*"): string => `${prefix}.beat.${role}`,
    /** The data plane over NATS: pulls and results for one ingress. */
    bulk: (key: ActorKey): string => `${prefix}.bulk.${actorToken(key)}`,
    /** Subject at which one executor receives the answers to its pulls over NATS. */
    bulkReply: (key: ActorKey): string => `${prefix}.bulkreply.${actorToken(key)}`,
    /** Figures of one actor, once a second (packed Stats records). */
    stats: (role: Role | "*"): string => `${prefix}.stats.${role}`,
    /** The planner's advice on how many accelerators are needed (packed ScalingAdvised records). */
    advice: `${prefix}.advice`,
    /** Operators to every agent. */
    agents: `${prefix}.admin.agents`,
    /** Operators to one agent. */
    agent: (key: ActorKey | "*"): string => `${prefix}.admin.agent.${key === "*" ? key : actorToken(key)}`,
    /** Agents to one operator. */
    operator: (key: ActorKey | "*"): string => `${prefix}.admin.operator.${key === "*" ? key : actorToken(key)}`,
    /** Operators to every ingress: which requests were refused or answered late. */
    refusals: `${prefix}.admin.refusals`,
    /** Ingresses to one operator. It is not the agents' subject, so that an ingress can't answer as an agent. */
    refusalsTold: (key: ActorKey | "*"): string => `${prefix}.admin.refusals.${key === "*" ? key : actorToken(key)}`,
  } as const;
};
export type Subjects = ReturnType<typeof subjectsOf>;

export const HEADER = {
  slo: "Tutti-Slo",
  deadline: "Tutti-Deadline",
  costs: "Tutti-Costs",
  priority: "Tutti-Priority",
  size: "Tutti-Size",
  version: "Tutti-Version",
  outputs: "Tutti-Outputs",
  job: "Tutti-Job",
  contentType: "Content-Type",
  accept: "Accept",
  messageId: "Nats-Msg-Id",
  traceparent: "traceparent",
  tracestate: "tracestate",
  error: "Nats-Service-Error",
  errorCode: "Nats-Service-Error-Code",
  model: "Tutti-Model",
  queueUs: "Tutti-Queue-Us",
  batchSize: "Tutti-Batch-Size",
} as const;

export const CONTENT = {
  json: "application/json",
  msgpack: "application/msgpack",
  binary: "application/vnd.tutti.tensor",
} as const;

/** Buckets of the store (JetStream KV in production). Nothing on the request path waits for them. */
export const BUCKET = {
  models: "tutti_models",
  plan: "tutti_plan",
  leases: "tutti_leases",
  profiles: "tutti_profiles",
} as const;
export const FILES_BUCKET = "tutti_files";
