import {
  BUCKET,
  CANCEL_SUBJECT,
  DEAD_JOBS_STREAM,
  DEAD_JOBS_SUBJECT,
  FILES_BUCKET,
  INFER_QUEUE,
  INFER_SUBJECT,
  JOBS_QUEUE,
  JOBS_STREAM,
  JOBS_SUBJECT,
  JOB_RESULTS_SUBJECT,
  JOB_USES_STREAM,
  JOB_USES_SUBJECT,
  QUEUED_JOBS_SUBJECT,
  RESULTS_BUCKET,
  RESULTS_STREAM,
  cancelSubject,
  jobResultsSubject,
  jobSubject,
  ROLES,
  type Role,
  appNameProblem,
  faultKeys,
  leaseKeys,
  subjectsOf,
} from "@tutti/protocol";
import { assert, unreachable } from "@tutti/units";

/**
 * A user of the NATS server and its permissions. Subjects are patterns; `<pattern> <queue>` allows subscribing only in
 * that queue group.
 */
export interface NatsUser {
  readonly name: string;
  /** Prefix of its reply subjects; no other user may subscribe there. */
  readonly inboxPrefix: string;
  readonly publish: readonly string[];
  readonly subscribe: readonly string[];
  /** Exceptions from `subscribe`; `<pattern> <queue>` only for that queue group, `>` for any. */
  readonly neverSubscribe?: readonly string[];
}

export interface UsersOptions {
  readonly cluster: string;
  /** Applications with credentials of their own. */
  readonly apps: readonly string[];
}

/**
 * Inbox prefix of an application. A wildcard stands for whole tokens, so the application is a token: `_INBOX.<app>.>`,
 * not `_INBOX_<app>`.
 */
export const appInboxPrefix = (app: string): string => `_INBOX.${app}`;
export const roleInboxPrefix = (role: Role | "node"): string => `_INBOX_${role}`;
/** Inboxes of all requesters from outside: applications, the operator, developers on this machine. */
const OUTSIDE_INBOXES = "_INBOX.>";

/** Keys that each role may write. Every role may read every bucket. */
const WRITES: Readonly<Record<Role | "admin", readonly string[]>> = {
  ingress: [],
  batcher: [`$KV.${BUCKET.leases}.model.>`],
  ranker: [`$KV.${BUCKET.leases}.ranker.>`],
  executor: [`$KV.${BUCKET.leases}.slot.>`, `$KV.${BUCKET.profiles}.${faultKeys.prefix}>`],
  profiler: [`$KV.${BUCKET.profiles}.>`],
  planner: [`$KV.${BUCKET.plan}.>`],
  gateway: [],
  jobs: [`$KV.${RESULTS_BUCKET}.>`],
  admin: [
    `$KV.${BUCKET.models}.>`,
    `$KV.${BUCKET.plan}.>`,
    `$KV.${BUCKET.profiles}.>`,
    `$KV.${BUCKET.leases}.${leaseKeys.operation}`,
  ],
};
const FILE_WRITES = [`$O.${FILES_BUCKET}.C.>`, `$O.${FILES_BUCKET}.M.>`, `$JS.API.STREAM.PURGE.OBJ_${FILES_BUCKET}`];

/**
 * Receives every request, inputs included, and nothing else; publishes nothing. It is separate from the operator, who
 * needs no inputs. It may not join a queue group, such as that of the ingresses, from which it would take requests. (A
 * server takes an empty list for no limit at all.)
 */
const RECORDER: NatsUser = {
  name: "recorder",
  inboxPrefix: "_INBOX_recorder",
  publish: ["_INBOX_recorder.>"],
  subscribe: [INFER_SUBJECT, "_INBOX_recorder.>"],
  neverSubscribe: [`${INFER_SUBJECT} >`],
};

/** Supervises actors' processes on one host and receives operators' orders; takes no part in serving. */
export const agentUser = (cluster: string): NatsUser => {
  const { agents, agent, operator } = subjectsOf(cluster);
  return {
    name: "agent",
    inboxPrefix: "_INBOX_agent",
    publish: [operator("*")],
    subscribe: ["_INBOX_agent.>", agents, agent("*")],
  };
};

/**
 * All users of a cluster. There is one per role, `node` for a process that hosts several, `answers` for an ingress'
 * replies to applications, `admin` for the operator, `agent` for process supervision, `recorder`, `app-<app>` each.
 */
export function usersOf(options: UsersOptions): readonly NatsUser[] {
  const problem = options.apps.map(appNameProblem).find((found) => found !== undefined);
  assert(problem === undefined, problem ?? "");
  return [
    ...ROLES.map((role) => roleUser(options.cluster, role)),
    nodeUser(options.cluster),
    { name: "answers", inboxPrefix: "_INBOX_answers", publish: [OUTSIDE_INBOXES], subscribe: ["_INBOX_answers.>"] },
    adminUser(options.cluster),
    agentUser(options.cluster),
    RECORDER,
    ...options.apps.map(appUser),
  ];
}

/**
 * User of connections to the loopback address without credentials. It may send requests and get answers, but neither
 * receives nor publishes anything inside. For development: it can read the answers of every application.
 */
export const LOCAL_USER: NatsUser = {
  name: "local",
  inboxPrefix: "_INBOX",
  publish: ["infer.>", CANCEL_SUBJECT, "$SRV.>", JOBS_SUBJECT, JOB_RESULTS_SUBJECT],
  subscribe: [OUTSIDE_INBOXES, hearsResults(">")],
};

/**
 * It has no permission for JetStream, whose receipts and answers go wherever a message says: into another's inbox, or
 * into a bucket. Job runners stand in between.
 */
const appUser = (app: string): NatsUser => ({
  name: `app-${app}`,
  inboxPrefix: appInboxPrefix(app),
  publish: [`infer.*.${app}`, cancelSubject(app), jobSubject("*", app), jobResultsSubject("*", app)],
  subscribe: [`${appInboxPrefix(app)}.>`, hearsResults(`${app}.>`)],
});

function adminUser(cluster: string): NatsUser {
  const { beat, stats, advice, agents, agent, operator, refusals, refusalsTold } = subjectsOf(cluster);
  return {
    name: "admin",
    // Roles answer `$SRV` below `_INBOX.` only. No application may be called admin, so that none hears what comes here.
    inboxPrefix: "_INBOX.admin",
    publish: [
      "infer.>",
      CANCEL_SUBJECT,
      "$SRV.>",
      ...readsStore(),
      ...WRITES.admin,
      ...FILE_WRITES,
      agents,
      agent("*"),
      refusals,
      JOBS_SUBJECT,
      JOB_RESULTS_SUBJECT,
      ...[JOBS_STREAM, DEAD_JOBS_STREAM].map((stream) => `$JS.API.STREAM.INFO.${stream}`),
      `$JS.API.CONSUMER.INFO.${JOBS_STREAM}.*`,
      `$JS.API.STREAM.MSG.GET.${DEAD_JOBS_STREAM}`,
      `$JS.API.STREAM.MSG.DELETE.${DEAD_JOBS_STREAM}`,
    ],
    // An operator may make requests in the name of any application.
    subscribe: [
      ...[OUTSIDE_INBOXES, beat("*"), stats("*"), advice, operator("*"), refusalsTold("*")],
      hearsResults(">"),
    ],
  };
}

function roleUser(cluster: string, role: Role): NatsUser {
  const subjects = subjectsOf(cluster);
  const inboxPrefix = roleInboxPrefix(role);
  const special = roleSubjects(cluster, role);
  return {
    name: role,
    inboxPrefix,
    publish: [
      subjects.beat(role),
      subjects.stats(role),
      // Answers to $SRV. Inboxes cannot be guessed (96 random bits), and the users who may read them are those who ask.
      OUTSIDE_INBOXES,
      ...readsStore(),
      ...WRITES[role],
      ...special.publish,
    ],
    subscribe: [
      `${inboxPrefix}.>`,
      subjects.beat("*"),
      subjects.role(role),
      // Actors are keyed by random incarnations, which no static configuration can name.
      `${subjects.prefix}.to.*`,
      `${subjects.prefix}.alive.*`,
      ...["PING", "INFO", "STATS"].flatMap((verb) => [
        `$SRV.${verb}`,
        `$SRV.${verb}.${role}`,
        `$SRV.${verb}.${role}.*`,
      ]),
      ...special.subscribe,
    ],
  };
}

/** A process that hosts every role but the executor's, which runs models. */
function nodeUser(cluster: string): NatsUser {
  const inboxPrefix = roleInboxPrefix("node");
  const hosted = ROLES.filter((role) => role !== "executor").map((role) => roleUser(cluster, role));
  const union = (list: (user: NatsUser) => readonly string[]): string[] => [...new Set(hosted.flatMap(list))];
  return {
    name: "node",
    inboxPrefix,
    publish: union(({ publish }) => publish),
    subscribe: [
      `${inboxPrefix}.>`,
      ...union(({ subscribe, inboxPrefix: own }) => subscribe.filter((one) => one !== `${own}.>`)),
    ],
  };
}

function roleSubjects(
  cluster: string,
  role: Role,
): { readonly publish: readonly string[]; readonly subscribe: readonly string[] } {
  const subjects = subjectsOf(cluster);
  const toActors = `${subjects.prefix}.to.*`;
  const probes = `${subjects.prefix}.alive.*`;
  const bulk = `${subjects.prefix}.bulk.*`;
  const bulkReply = `${subjects.prefix}.bulkreply.*`;
  const toRoles = (...roles: Role[]): string[] => roles.map((to) => subjects.role(to));
  switch (role) {
    case "ingress":
      return {
        publish: [
          ...[toActors, probes, bulkReply, ...toRoles("batcher", "profiler", "planner")],
          subjects.refusalsTold("*"),
        ],
        subscribe: [`${INFER_SUBJECT} ${INFER_QUEUE}`, CANCEL_SUBJECT, bulk, subjects.refusals],
      };
    case "batcher":
      return { publish: [toActors, probes, ...toRoles("ranker", "executor", "ingress", "profiler")], subscribe: [] };
    case "ranker":
      return { publish: [toActors, probes, ...toRoles("batcher", "executor", "ranker")], subscribe: [] };
    case "executor":
      return {
        publish: [toActors, bulk, ...toRoles("ranker", "batcher", "ingress", "profiler", "planner")],
        subscribe: [bulkReply],
      };
    case "profiler":
      return { publish: [toActors, ...toRoles("executor", "batcher", "planner")], subscribe: [] };
    case "planner":
      return { publish: [toActors, ...toRoles(...ROLES), subjects.advice], subscribe: [subjects.stats("*")] };
    case "gateway":
      return {
        publish: ["infer.>", CANCEL_SUBJECT, "$SRV.>"],
        // It makes requests in the name of many applications: each answer comes below that application's inbox, under a
        // token of the gateway's own.
        subscribe: ["_INBOX.*.gateway.>", subjects.stats("*"), subjects.advice],
      };
    case "jobs":
      return {
        publish: [
          ...["infer.>", CANCEL_SUBJECT, QUEUED_JOBS_SUBJECT, DEAD_JOBS_SUBJECT, JOB_USES_SUBJECT],
          ...runsJobs(),
        ],
        // The last are answers to the requests that it makes of jobs, in the names of their applications.
        subscribe: [
          ...[JOBS_SUBJECT, JOB_RESULTS_SUBJECT].map((subject) => `${subject} ${JOBS_QUEUE}`),
          "_INBOX.*.jobs.>",
        ],
      };
    default:
      return unreachable(role);
  }
}

/**
 * The part of the JetStream API that get, watch and the first use of a bucket need. The bucket's entries themselves are
 * `$KV` and `$O`.
 */
function readsStore(): string[] {
  const streams = [...Object.values(BUCKET).map((bucket) => `KV_${bucket}`), `OBJ_${FILES_BUCKET}`];
  return streams.flatMap((stream) => [
    `$JS.API.STREAM.INFO.${stream}`,
    `$JS.API.STREAM.CREATE.${stream}`,
    `$JS.API.STREAM.MSG.GET.${stream}`,
    `$JS.API.DIRECT.GET.${stream}`,
    `$JS.API.DIRECT.GET.${stream}.>`,
    `$JS.API.CONSUMER.CREATE.${stream}`,
    `$JS.API.CONSUMER.CREATE.${stream}.>`,
    `$JS.API.CONSUMER.INFO.${stream}.*`,
    `$JS.API.CONSUMER.DELETE.${stream}.*`,
    // Flow control of the object store's consumers.
    `$JS.FC.${stream}.>`,
  ]);
}

/** Hearing results as they are stored. */
function hearsResults(keys: string): string {
  return `$KV.${RESULTS_BUCKET}.${keys}`;
}

/** The part of the JetStream API that the job runner needs: it makes the streams, and takes jobs from the queue. */
function runsJobs(): string[] {
  return [
    ...[JOBS_STREAM, RESULTS_STREAM, DEAD_JOBS_STREAM, JOB_USES_STREAM].flatMap((stream) => [
      `$JS.API.STREAM.INFO.${stream}`,
      `$JS.API.STREAM.CREATE.${stream}`,
    ]),
    `$JS.API.CONSUMER.CREATE.${JOBS_STREAM}.>`,
    `$JS.API.CONSUMER.INFO.${JOBS_STREAM}.*`,
    `$JS.API.CONSUMER.MSG.NEXT.${JOBS_STREAM}.*`,
    `$JS.ACK.${JOBS_STREAM}.>`,
    `$JS.API.DIRECT.GET.${RESULTS_STREAM}.$KV.${RESULTS_BUCKET}.>`,
  ];
}
