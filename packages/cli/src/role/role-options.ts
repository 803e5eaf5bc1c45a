/** The command line of a role: one table for `services/*`, `tutti run` and `tutti up`, which writes such command lines. */
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { ROLES, type Role, isName } from "@tutti/protocol";
import { GPUS_MAX, type GpuId, type Micros, formatDuration, gpuId, parseBytes, parseDuration } from "@tutti/units";
import { usageError } from "../failure.ts";
import { BUDGET_SHARE, EPOCH, EPOCH_LEAST, REHEARSAL_TIME, REHEARSAL_TIME_MAX } from "./role-defaults.ts";

export const PROVIDERS = ["cpu", "webgpu", "cuda"] as const;
export const ENGINES = ["onnx", "emulated"] as const;
export const GATHERS = ["target", "head"] as const;
export const LATENCIES = ["hints", "distributions", "means"] as const;
export const DATA_PLANES = ["tcp", "nats"] as const;
export const REPLY_SCOPES = ["app", "any"] as const;
export const LOG_LEVELS = ["debug", "info", "warn", "error", "silent"] as const;

export type PolicyChoice =
  | { readonly kind: "adaptive" | "deferred" | "eager" | "latest" | "beta-lambda" }
  | { readonly kind: "timeout"; readonly wait: Micros };

export interface RoleOptions {
  readonly nats: readonly string[];
  readonly creds: string | undefined;
  /** ingress: of the connection on which answers go out. */
  readonly answersCreds: string | undefined;
  /** Path of the authority's certificate: every connection speaks TLS then, with peers that it has signed. */
  readonly tlsCa: string | undefined;
  /** ingress: of its data plane. Paths. */
  readonly tlsCert: string | undefined;
  readonly tlsKey: string | undefined;
  readonly cluster: string;
  /** ranker: whose leader or spare it is; executor: where it belongs as long as nobody has planned. */
  readonly subCluster: string;
  readonly host: string | undefined;
  /** executor: the accelerators that it drives. */
  readonly gpus: readonly GpuId[];
  readonly engine: (typeof ENGINES)[number];
  readonly provider: (typeof PROVIDERS)[number];
  readonly jitter: { readonly seed: number; readonly spread: number } | undefined;
  /** executor: bytes for the weights of its models together, on each accelerator. Undefined: unbounded. */
  readonly memory: number | undefined;
  /** executor: threads of a run on a CPU. */
  readonly threads: number;
  /** executor: in percent of its accelerator, of which it has a part by its cores or by CUDA MPS. */
  readonly part: number;
  /** executor: where it notes what it is doing, for whoever is started after a crash. */
  readonly state: string;
  /** batcher. */
  readonly policy: PolicyChoice;
  readonly gather: (typeof GATHERS)[number];
  readonly latency: (typeof LATENCIES)[number];
  readonly patience: number | undefined;
  /** ingress, executor. */
  readonly dataPlane: (typeof DATA_PLANES)[number];
  /** ingress: where executors connect to. */
  readonly dataHost: string;
  /** ingress: where answers may go: below the application's own inbox, or below any. */
  readonly replyScope: (typeof REPLY_SCOPES)[number];
  /** ingress: folder of the pipelines that it serves, and of their functions. */
  readonly pipelines: string | undefined;
  /** ingress: how long it may send itself requests when it starts; 0: not at all. */
  readonly rehearsal: Micros;
  /** gateway: where it is reached; port 0 takes a free one, undefined the usual one where that is free. */
  readonly httpHost: string;
  readonly httpPort: number | undefined;
  readonly grpcPort: number | undefined;
  readonly metricsPort: number | undefined;
  readonly metricsHost: string;
  /** gateway: files with the token of the model repository, which is closed without, and with credentials that may change models. */
  readonly repositoryToken: string | undefined;
  readonly repositoryCreds: string | undefined;
  /** gateway: a Jaeger's address, where its console asks for traces. */
  readonly traceQuery: string | undefined;
  /** planner: how often loads are balanced. */
  readonly epoch: Micros;
  /** planner: of all models' memory, what may move in an epoch only to balance loads. */
  readonly budgetShare: number;
  readonly logLevel: (typeof LOG_LEVELS)[number];
  readonly otlp: string | undefined;
}

interface Flag {
  readonly name: string;
  readonly value: string;
  readonly roles: readonly Role[];
  readonly text: string;
}

const EVERY: readonly Role[] = ROLES;

/** What `tutti run <role> --help` prints. */
export const FLAGS: readonly Flag[] = [
  {
    name: "nats",
    value: "url[,url]",
    roles: EVERY,
    text: "servers of the cluster (default: TUTTI_NATS, else nats://127.0.0.1:4222)",
  },
  { name: "creds", value: "file", roles: EVERY, text: "credentials of this role (default: TUTTI_CREDS)" },
  {
    name: "answers-creds",
    value: "file",
    roles: ["ingress"],
    text: "credentials of a connection for answers, whose user may publish to applications' inboxes only (default: TUTTI_ANSWERS_CREDS, else answers go out with --creds)",
  },
  {
    name: "tls-ca",
    value: "file",
    roles: EVERY,
    text: "speak TLS, with peers whose certificates this authority has signed (default: TUTTI_TLS_CA)",
  },
  {
    name: "tls-cert",
    value: "file",
    roles: ["ingress"],
    text: "certificate that executors are shown, with the name of --data-host (default: TUTTI_TLS_CERT)",
  },
  { name: "tls-key", value: "file", roles: ["ingress"], text: "its key (default: TUTTI_TLS_KEY)" },
  { name: "cluster", value: "name", roles: EVERY, text: "which cluster to join (default: main)" },
  {
    name: "sub-cluster",
    value: "name",
    roles: ["ranker", "executor"],
    text: "of a ranker, which it leads or spares; of an executor, as long as the planner has not placed it (default: main)",
  },
  { name: "host", value: "name", roles: EVERY, text: "how heartbeats call this host (default: its hostname)" },
  { name: "gpus", value: "0,2-4", roles: ["executor"], text: "accelerator ids that this process drives (default: 0)" },
  { name: "engine", value: ENGINES.join("|"), roles: ["executor"], text: "what runs batches (default: onnx)" },
  {
    name: "provider",
    value: PROVIDERS.join("|"),
    roles: ["executor"],
    text: "execution provider of onnxruntime (default: cpu)",
  },
  {
    name: "jitter",
    value: "spread[:seed]",
    roles: ["executor"],
    text: "emulated runs take latency × (1 ± spread) (default: 0)",
  },
  {
    name: "memory",
    value: "4GB",
    roles: ["executor"],
    text: "for the weights of its models together, on each accelerator; what doesn't fit is not loaded (default: unbounded)",
  },
  { name: "threads", value: "n", roles: ["executor"], text: "of a run on a CPU (default: 1)" },
  {
    name: "part",
    value: "percent",
    roles: ["executor"],
    text: "how much of the accelerator it has, by its cores or by CUDA MPS, as `tutti split` starts it; emulated ones take as much longer (default: 100)",
  },
  {
    name: "state",
    value: "folder",
    roles: ["executor"],
    text: "notes which model it runs, so that one which ends its process is known; outlives the process (default: a folder of the user's in the system's temporary one)",
  },
  {
    name: "policy",
    value: "adaptive|deferred|eager|timeout:5ms|latest|beta-lambda",
    roles: ["batcher"],
    text: "when batches start (default: adaptive, which is deferred, and earlier where arrivals are bursty)",
  },
  {
    name: "latency",
    value: LATENCIES.join("|"),
    roles: ["batcher"],
    text: "what is planned with where running times depend on the input; the last two are for comparisons (default: hints, and distributions without)",
  },
  { name: "gather", value: GATHERS.join("|"), roles: ["batcher"], text: "how batches are gathered (default: target)" },
  {
    name: "patience",
    value: "0..1",
    roles: ["batcher"],
    text: "overrides every model's patience: 0 is lowest latency, 1 largest batches",
  },
  {
    name: "data-plane",
    value: DATA_PLANES.join("|"),
    roles: ["ingress", "executor"],
    text: "how inputs reach executors (default: tcp where it connects)",
  },
  {
    name: "data-host",
    value: "address",
    roles: ["ingress"],
    text: "address that executors connect to (default: 127.0.0.1)",
  },
  {
    name: "reply-scope",
    value: REPLY_SCOPES.join("|"),
    roles: ["ingress"],
    text: "answers go below _INBOX.<app> only, or for development below any _INBOX (default: app)",
  },
  {
    name: "rehearsal",
    value: "duration",
    roles: ["ingress"],
    text: "how long to warm up with requests of its own at the start, or until the first of a publisher; 0 for none (default: 4s)",
  },
  {
    name: "pipelines",
    value: "folder",
    roles: ["ingress"],
    text: "serve the pipelines that its *.yaml files declare; their functions are loaded from there and run with the ingress' rights",
  },
  {
    name: "http-port",
    value: "port",
    roles: ["gateway"],
    text: "of the Open Inference Protocol over HTTP, 0 for any (default: 8000 where it is free, else any)",
  },
  {
    name: "grpc-port",
    value: "port",
    roles: ["gateway"],
    text: "of the Open Inference Protocol over gRPC, 0 for any (default: 8001 where it is free, else any)",
  },
  {
    name: "metrics-port",
    value: "port",
    roles: ["gateway"],
    text: "of /metrics for Prometheus, 0 for any (default: 8002 where it is free, else any)",
  },
  {
    name: "http-host",
    value: "address",
    roles: ["gateway"],
    text: "address of HTTP and gRPC: whoever reaches it may ask in any application's name (default: 127.0.0.1)",
  },
  {
    name: "metrics-host",
    value: "address",
    roles: ["gateway"],
    text: "address of /metrics and /scaling, for Prometheus and autoscalers (default: 127.0.0.1)",
  },
  {
    name: "repository-token",
    value: "file",
    roles: ["gateway"],
    text: "who sends this token may load and unload models over HTTP and gRPC (default: nobody may)",
  },
  {
    name: "repository-creds",
    value: "file",
    roles: ["gateway"],
    text: "credentials that may change models, such as the operator's: a gateway's own may not",
  },
  {
    name: "trace-query",
    value: "url",
    roles: ["gateway"],
    text: "a Jaeger's address, such as http://127.0.0.1:16686, where the console asks for traces (default: nowhere)",
  },
  {
    name: "epoch",
    value: "duration",
    roles: ["planner"],
    text: "how often loads are balanced, and a third of it how often advice on scaling is given (default: 30s)",
  },
  {
    name: "budget-share",
    value: "0..1",
    roles: ["planner"],
    text: "of all models' memory, what may be loaded and unloaded in an epoch only to balance loads (default: 0.1)",
  },
  { name: "log-level", value: LOG_LEVELS.join("|"), roles: EVERY, text: "(default: info)" },
  {
    name: "otlp",
    value: "url",
    roles: EVERY,
    text: "where traces go, such as http://127.0.0.1:4318 (default: nowhere)",
  },
];

/** @throws {CommandError} naming the flag and what it takes */
export function parseRoleOptions(
  role: Role,
  argv: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): RoleOptions {
  const flags = FLAGS.filter((flag) => flag.roles.includes(role));
  const given = parseFlags(role, flags, argv);
  const flag = (name: string): string | undefined => given[name];
  return {
    nats: (flag("nats") ?? env["TUTTI_NATS"] ?? "nats://127.0.0.1:4222").split(",").filter((url) => url !== ""),
    creds: flag("creds") ?? env["TUTTI_CREDS"],
    answersCreds: flag("answers-creds") ?? env["TUTTI_ANSWERS_CREDS"],
    tlsCa: flag("tls-ca") ?? env["TUTTI_TLS_CA"],
    ...certificateOf(flag, env),
    cluster: nameOf("cluster", flag("cluster") ?? "main"),
    subCluster: nameOf("sub-cluster", flag("sub-cluster") ?? "main"),
    host: flag("host"),
    gpus: parseGpus(flag("gpus") ?? "0"),
    engine: oneOf("engine", ENGINES, flag("engine") ?? "onnx"),
    provider: oneOf("provider", PROVIDERS, flag("provider") ?? "cpu"),
    jitter: parseJitter(flag("jitter")),
    memory: parseMemory(flag("memory")),
    threads: wholeNumber("threads", flag("threads") ?? "1", 64),
    part: wholeNumber("part", flag("part") ?? "100", 100),
    state: flag("state") ?? join(tmpdir(), `tutti-${userInfo().uid}`),
    policy: parsePolicy(flag("policy") ?? "adaptive"),
    gather: oneOf("gather", GATHERS, flag("gather") ?? "target"),
    latency: oneOf("latency", LATENCIES, flag("latency") ?? "hints"),
    patience: parsePatience(flag("patience")),
    dataPlane: oneOf("data-plane", DATA_PLANES, flag("data-plane") ?? "tcp"),
    dataHost: flag("data-host") ?? "127.0.0.1",
    replyScope: oneOf("reply-scope", REPLY_SCOPES, flag("reply-scope") ?? "app"),
    pipelines: flag("pipelines"),
    rehearsal: parseRehearsal(flag("rehearsal")),
    httpHost: flag("http-host") ?? "127.0.0.1",
    httpPort: optionalPort("http-port", flag("http-port")),
    grpcPort: optionalPort("grpc-port", flag("grpc-port")),
    metricsPort: optionalPort("metrics-port", flag("metrics-port")),
    metricsHost: flag("metrics-host") ?? "127.0.0.1",
    repositoryToken: flag("repository-token"),
    repositoryCreds: flag("repository-creds"),
    traceQuery: httpAddress("trace-query", flag("trace-query")),
    epoch: parseEpoch(flag("epoch")),
    budgetShare: parseBudgetShare(flag("budget-share")),
    logLevel: oneOf("log-level", LOG_LEVELS, flag("log-level") ?? "info"),
    otlp: flag("otlp"),
  };
}

function httpAddress(name: string, text: string | undefined): string | undefined {
  if (text === undefined || /^https?:$/.test(URL.parse(text)?.protocol ?? "")) return text;
  throw usageError(`--${name} ${text}: an address such as http://127.0.0.1:16686`);
}

function certificateOf(
  flag: (name: string) => string | undefined,
  env: NodeJS.ProcessEnv,
): Pick<RoleOptions, "tlsCert" | "tlsKey"> {
  const tlsCert = flag("tls-cert") ?? env["TUTTI_TLS_CERT"];
  const tlsKey = flag("tls-key") ?? env["TUTTI_TLS_KEY"];
  if ((tlsCert === undefined) !== (tlsKey === undefined)) throw usageError("--tls-cert and --tls-key go together");
  return { tlsCert, tlsKey };
}

export function roleHelp(role: Role): string {
  const flags = FLAGS.filter((flag) => flag.roles.includes(role));
  const width = Math.max(...flags.map((flag) => flag.name.length + flag.value.length)) + 5;
  return flags.map((flag) => `  ${`--${flag.name} <${flag.value}>`.padEnd(width)}  ${flag.text}`).join("\n");
}

export function parsePolicy(text: string): PolicyChoice {
  if (isPlainPolicy(text)) return { kind: text };
  const [kind, wait] = text.split(":", 2);
  const duration = kind === "timeout" && wait !== undefined ? parseDuration(wait) : undefined;
  if (duration !== undefined) return { kind: "timeout", wait: duration };
  throw usageError(
    `--policy ${text}: take adaptive, deferred, eager, timeout:<how long> (timeout:5ms), latest or beta-lambda`,
  );
}

const PLAIN_POLICIES = ["adaptive", "deferred", "eager", "latest", "beta-lambda"] as const;
const isPlainPolicy = (text: string): text is (typeof PLAIN_POLICIES)[number] =>
  (PLAIN_POLICIES as readonly string[]).includes(text);

/** `0`, `0,2`, `0-7`. */
export function parseGpus(text: string): GpuId[] {
  const ids = new Set<number>();
  for (const part of text.split(",")) {
    const match = /^(\d+)(?:-(\d+))?$/.exec(part.trim());
    const [from, to] = [Number(match?.[1]), Number(match?.[2] ?? match?.[1])];
    if (match === null || to < from || to >= GPUS_MAX) {
      throw usageError(`--gpus ${text}: write ids below ${GPUS_MAX}, such as 0 or 0,2 or 0-7`);
    }
    for (let id = from; id <= to; id++) ids.add(id);
  }
  return [...ids].sort((a, b) => a - b).map(gpuId);
}

export function parsePatience(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (text.trim() !== "" && value >= 0 && value <= 1) return value;
  throw usageError(`--patience ${text}: a number from 0 (lowest latency) to 1 (largest batches)`);
}

export function parseMemory(text: string | undefined): number | undefined {
  const bytes = text === undefined ? undefined : parseBytes(text);
  if (text === undefined || (bytes !== undefined && bytes > 0)) return bytes;
  throw usageError(`--memory ${text}: a size, such as 4GB or 512MB`);
}

/** From 1 on. */
export function wholeNumber(flag: string, text: string, max: number): number {
  const count = Number(text);
  if (Number.isInteger(count) && count >= 1 && count <= max) return count;
  throw usageError(`--${flag} ${text}: a number from 1 to ${max}`);
}

export function parseRehearsal(text: string | undefined): Micros {
  const time = text === undefined ? REHEARSAL_TIME : parseDuration(text);
  if (time !== undefined && time <= REHEARSAL_TIME_MAX) return time;
  throw usageError(`--rehearsal ${text}: a duration up to ${formatDuration(REHEARSAL_TIME_MAX)}, such as 4s, or 0`);
}

export function parseBudgetShare(text: string | undefined): number {
  const share = text === undefined ? BUDGET_SHARE : Number(text);
  if (text?.trim() !== "" && share >= 0 && share <= 1) return share;
  throw usageError(`--budget-share ${text}: a number from 0 (nothing moves only to balance) to 1`);
}

export function parseEpoch(text: string | undefined): Micros {
  const epoch = text === undefined ? EPOCH : parseDuration(text);
  if (epoch !== undefined && epoch >= EPOCH_LEAST) return epoch;
  throw usageError(`--epoch ${text}: a duration from ${formatDuration(EPOCH_LEAST)} on, such as 30s`);
}

/** `0.05`, `0.05:7`. */
function parseJitter(text: string | undefined): RoleOptions["jitter"] {
  if (text === undefined) return undefined;
  const [spread = NaN, seed = 1] = text.split(":").map(Number);
  if (!(spread >= 0 && spread < 1) || !Number.isSafeInteger(seed)) {
    throw usageError(`--jitter ${text}: a spread from 0 to below 1, and perhaps a seed, such as 0.05:7`);
  }
  return spread === 0 ? undefined : { seed, spread };
}

export function parsePort(name: string, text: string): number {
  const port = Number(text);
  if (/^\d+$/.test(text) && port < 65_536) return port;
  throw usageError(`--${name} ${text}: a port from 0 to 65535`);
}

const optionalPort = (name: string, text: string | undefined): number | undefined =>
  text === undefined ? undefined : parsePort(name, text);

export function oneOf<Choice extends string>(name: string, choices: readonly Choice[], text: string): Choice {
  const choice = choices.find((candidate) => candidate === text);
  if (choice === undefined) throw usageError(`--${name} ${text}: take one of ${choices.join(", ")}`);
  return choice;
}

function nameOf(flag: string, text: string): string {
  if (isName(text)) return text;
  throw usageError(`--${flag} ${text}: letters, digits, "-" and "_" only`);
}

function parseFlags(role: Role, flags: readonly Flag[], argv: readonly string[]): Readonly<Record<string, string>> {
  try {
    const options = Object.fromEntries(flags.map(({ name }) => [name, { type: "string" as const }]));
    return parseArgs({ args: [...argv], options, strict: true, allowPositionals: false }).values as Record<
      string,
      string
    >;
  } catch (error) {
    throw usageError(`${(error as Error).message}\nA ${role} takes:\n${roleHelp(role)}`);
  }
}
