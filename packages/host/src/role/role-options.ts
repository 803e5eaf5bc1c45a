/**
 * The command line of a role: one table for `services/*`, `tutti run` and `tutti up`, which writes such command lines.
 */
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { Role } from "@tutti/protocol";
import type { GpuId, Micros } from "@tutti/units";
import { usageError } from "@tutti/admin";
import {
  type Jitter,
  type PolicyChoice,
  hostsOf,
  LOOPBACK,
  httpAddress,
  isLoopback,
  nameOf,
  namesOf,
  oneOf,
  optionalPort,
  parseBudgetShare,
  parseEpoch,
  parseGpus,
  parseJitter,
  parseMemory,
  parsePatience,
  parsePolicy,
  parseWarmup,
  wholeNumber,
} from "./option-values.ts";
import {
  DATA_PLANES,
  ENGINES,
  FLAGS,
  type Flag,
  GATHERS,
  LATENCIES,
  LOG_LEVELS,
  PREFERENCES,
  PROVIDERS,
  REPLY_SCOPES,
  roleHelp,
} from "./role-flags.ts";
import { withCurrentNames } from "../renamed-flags.ts";

export interface RoleOptions {
  readonly nats: readonly string[];
  readonly creds: string | undefined;
  /** ingress: credentials of the connection for answers. */
  readonly answersCreds: string | undefined;
  /** Path of the authority's certificate: then every connection uses TLS, with peers that it has signed. */
  readonly tlsCa: string | undefined;
  /** ingress: certificate and key of its data plane. Paths. */
  readonly tlsCert: string | undefined;
  readonly tlsKey: string | undefined;
  readonly cluster: string;
  /** ranker: the sub-cluster that it leads or spares; executor: its sub-cluster until there is a plan. */
  readonly subCluster: string;
  readonly host: string | undefined;
  /** executor: the accelerators that it drives. */
  readonly gpus: readonly GpuId[];
  readonly engine: (typeof ENGINES)[number];
  readonly provider: (typeof PROVIDERS)[number];
  /** executor: which of its host's GPUs. */
  readonly device: number;
  readonly jitter: Jitter | undefined;
  /** executor: bytes for the weights of its models together, on each accelerator. Undefined: unbounded. */
  readonly memory: number | undefined;
  /** executor: threads of a run on a CPU. */
  readonly threads: number;
  /** executor: its share of the accelerator in percent, by cores or by CUDA MPS. */
  readonly part: number;
  /** executor: folder in which it notes its current work, for its successor after a crash. */
  readonly state: string;
  /** batcher. */
  readonly policy: PolicyChoice;
  readonly prefer: (typeof PREFERENCES)[number];
  readonly gather: (typeof GATHERS)[number];
  readonly latency: (typeof LATENCIES)[number];
  readonly patience: number | undefined;
  /** ingress, executor. */
  readonly dataPlane: (typeof DATA_PLANES)[number];
  /** ingress: address that executors connect to. */
  readonly dataHost: string;
  /** ingress: allowed reply subjects: below the application's own inbox, or below any. */
  readonly replyScope: (typeof REPLY_SCOPES)[number];
  /** ingress: folder of the pipelines that it serves, and of their functions. */
  readonly pipelines: string | undefined;
  /** ingress: maximum duration of its warm-up requests at the start; 0: none. */
  readonly warmup: Micros;
  /** gateway: expected models; until each is served or has failed, the gateway is not ready. */
  readonly awaitModels: readonly string[];
  /** gateway: its address; port 0 takes a free one, undefined the usual one if that is free. */
  readonly httpHost: string;
  readonly httpPort: number | undefined;
  readonly grpcPort: number | undefined;
  readonly metricsPort: number | undefined;
  readonly metricsHost: string;
  /** gateway: host names that browsers may use. */
  readonly allowedHosts: readonly string[];
  /** gateway: whether clients may pass tensors in /dev/shm. */
  readonly systemSharedMemory: boolean;
  /**
   * gateway: file with the token of the model repository, which is disabled without one. `repositoryCreds`: file with
   * credentials that may change models.
   */
  readonly repositoryToken: string | undefined;
  readonly repositoryCreds: string | undefined;
  /** gateway: certificate and key of HTTP and gRPC. Paths. */
  readonly httpTls: { readonly cert: string; readonly key: string } | undefined;
  /** gateway: file of API keys. */
  readonly apiKeys: string | undefined;
  /** gateway: the keys, issuer and audience of accepted tokens. */
  readonly jwt:
    { readonly jwks: string; readonly issuer: string | undefined; readonly audience: string | undefined } | undefined;
  /** gateway: address of the Jaeger that the console asks for traces. */
  readonly traceQuery: string | undefined;
  /** planner: period of load balancing. */
  readonly epoch: Micros;
  /** planner: share of all models' memory that may move in an epoch only to balance loads. */
  readonly budgetShare: number;
  /** planner: number of sub-clusters that are used whatever that costs. */
  readonly subClustersMin: number;
  readonly logLevel: (typeof LOG_LEVELS)[number];
  readonly otlp: string | undefined;
}

/** @throws {CommandError} naming the flag and its valid values */
export function parseRoleOptions(
  roles: Role | readonly Role[],
  argv: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): RoleOptions {
  const hosted = [roles].flat();
  const flags = FLAGS.filter((flag) => hosted.some((role) => flag.roles.includes(role)));
  const given = parseFlags(hosted, flags, argv);
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
    device: wholeNumber("device", flag("device") ?? "0", 63, 0),
    jitter: parseJitter(flag("jitter")),
    memory: parseMemory(flag("memory")),
    threads: wholeNumber("threads", flag("threads") ?? "1", 64),
    part: wholeNumber("part", flag("part") ?? "100", 100),
    state: flag("state") ?? join(tmpdir(), `tutti-${userInfo().uid}`),
    policy: parsePolicy(flag("policy") ?? "adaptive"),
    prefer: oneOf("prefer", PREFERENCES, flag("prefer") ?? "latency"),
    gather: oneOf("gather", GATHERS, flag("gather") ?? "target"),
    latency: oneOf("latency", LATENCIES, flag("latency") ?? "hints"),
    patience: parsePatience(flag("patience")),
    dataPlane: oneOf("data-plane", DATA_PLANES, flag("data-plane") ?? "tcp"),
    dataHost: flag("data-host") ?? "127.0.0.1",
    replyScope: oneOf("reply-scope", REPLY_SCOPES, flag("reply-scope") ?? "app"),
    pipelines: flag("pipelines"),
    warmup: parseWarmup(flag("warmup")),
    awaitModels: namesOf("await-models", flag("await-models")),
    httpHost: flag("http-host") ?? LOOPBACK,
    httpPort: optionalPort("http-port", flag("http-port")),
    grpcPort: optionalPort("grpc-port", flag("grpc-port")),
    metricsPort: optionalPort("metrics-port", flag("metrics-port")),
    metricsHost: flag("metrics-host") ?? "127.0.0.1",
    allowedHosts: hostsOf("allowed-hosts", flag("allowed-hosts")),
    systemSharedMemory: sharedMemoryOf(flag),
    repositoryToken: flag("repository-token"),
    repositoryCreds: flag("repository-creds"),
    ...accessOf(flag),
    traceQuery: httpAddress("trace-query", flag("trace-query")),
    epoch: parseEpoch(flag("epoch")),
    budgetShare: parseBudgetShare(flag("budget-share")),
    subClustersMin: wholeNumber("sub-clusters-min", flag("sub-clusters-min") ?? "1", 1_024),
    logLevel: oneOf("log-level", LOG_LEVELS, flag("log-level") ?? "info"),
    otlp: flag("otlp"),
  };
}

/** @throws {CommandError} other machines could reach a gateway that requires no key */
function accessOf(flag: (name: string) => string | undefined): Pick<RoleOptions, "httpTls" | "apiKeys" | "jwt"> {
  const [cert, key] = [flag("http-tls-cert"), flag("http-tls-key")];
  if ((cert === undefined) !== (key === undefined)) throw usageError("--http-tls-cert and --http-tls-key go together");
  const [apiKeys, jwks, issuer, audience] = ["api-keys", "jwks", "jwt-issuer", "jwt-audience"].map(flag);
  if (jwks === undefined && (issuer !== undefined || audience !== undefined))
    throw usageError("--jwt-issuer and --jwt-audience go with --jwks: the keys by which tokens are checked");
  const host = flag("http-host") ?? LOOPBACK;
  const isOpen = apiKeys === undefined && jwks === undefined;
  if (isOpen && !isLoopback(host) && flag("insecure-no-auth") === undefined)
    throw usageError(
      `--http-host ${host}: others than this machine reach it, and nobody needs a key. Make keys with \`tutti auth key add <app>\` and name their file with --api-keys, or who signs tokens with --jwks; --insecure-no-auth takes requests from whoever comes`,
    );
  return {
    httpTls: cert === undefined || key === undefined ? undefined : { cert, key },
    apiKeys,
    jwt: jwks === undefined ? undefined : { jwks, issuer, audience },
  };
}

/** @throws {CommandError} clients on other machines have no memory to share */
function sharedMemoryOf(flag: (name: string) => string | undefined): boolean {
  if (flag("system-shared-memory") === undefined) return false;
  const host = flag("http-host") ?? LOOPBACK;
  if (isLoopback(host)) return true;
  throw usageError(`--system-shared-memory with --http-host ${host}: it is for clients of this machine, over loopback`);
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

function parseFlags(
  roles: readonly Role[],
  flags: readonly Flag[],
  argv: readonly string[],
): Readonly<Record<string, string>> {
  try {
    const options = Object.fromEntries(
      flags.map(({ name, value }) => [
        name,
        { type: value === undefined ? ("boolean" as const) : ("string" as const) },
      ]),
    );
    const { values } = parseArgs({ args: withCurrentNames(argv), options, strict: true, allowPositionals: false });
    return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, String(value)]));
  } catch (error) {
    throw usageError(`${(error as Error).message}\nA ${roles.join(",")} takes:\n${roleHelp(roles)}`);
  }
}
