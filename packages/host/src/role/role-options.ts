/**
 * The command line of a role: one table for `services/*`, `tutti run` and `tutti up`, which writes such command lines.
 */
import { parseArgs } from "node:util";
import type { Role } from "@tutti/protocol";
import { type GpuId, type Micros, assert } from "@tutti/units";
import { usageError } from "@tutti/admin";
import {
  type HostPort,
  type Jitter,
  type PolicyChoice,
  hostsOf,
  httpAddress,
  isLoopback,
  nameOf,
  namesOf,
  oneOf,
  optionalPort,
  parseAcceleratorType,
  parseBudgetShare,
  parseEpoch,
  parseGpus,
  parseHostPort,
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
  GATHERS,
  LATENCIES,
  LOG_LEVELS,
  LOOPBACK,
  PREFERENCES,
  PROVIDERS,
  REPLY_SCOPES,
  flagsOf,
  roleHelp,
} from "./role-flags.ts";
import { type OptionSpec } from "../options/option-spec.ts";
import { type OptionInForce, type Said, optionsInForce, placed, valuesOf } from "../options/options-in-force.ts";
import { temporaryFolder } from "./own-folder.ts";
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
  /** executor: name of its accelerators in the executor type; undefined: a GPU's own, or none. */
  readonly acceleratorType: string | undefined;
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
  /** ingress, jobs: allowed reply subjects: below the application's own inbox, or below any. */
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
  readonly adminToken: string | undefined;
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
  /** `tutti run`: credentials of the agent that keeps the process. */
  readonly agentCreds: string | undefined;
  /** Where probes are answered; undefined: nowhere. */
  readonly health: HostPort | undefined;
}

/** @throws {CommandError} naming the flag and its valid values */
export const parseRoleOptions = (
  roles: Role | readonly Role[],
  argv: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): RoleOptions => readRoleOptions(roleOptionsInForce(roles, { flags: parseRoleFlags(roles, argv), env }));

/** The options that these roles have, and those that all have, with their values and sources. */
export const roleOptionsInForce = (roles: Role | readonly Role[], said: Said): OptionInForce[] =>
  optionsInForce(flagsOf(roles), said);

/** @throws {CommandError} naming the flag or the place in the file, and the valid values */
export function readRoleOptions(options: readonly OptionInForce[]): RoleOptions {
  try {
    return fromValues(valuesOf(options));
  } catch (error) {
    throw placed(error, options);
  }
}

function fromValues(values: ReadonlyMap<string, string>): RoleOptions {
  const flag = (name: string): string | undefined => values.get(name);
  const valued = (name: string): string => flag(name) ?? defaultOf(name);
  return {
    nats: valued("nats")
      .split(",")
      .filter((url) => url !== ""),
    creds: flag("creds"),
    answersCreds: flag("answers-creds"),
    tlsCa: flag("tls-ca"),
    ...certificateOf(flag),
    cluster: nameOf("cluster", valued("cluster")),
    subCluster: nameOf("sub-cluster", valued("sub-cluster")),
    host: flag("host"),
    gpus: parseGpus(valued("gpus")),
    engine: oneOf("engine", ENGINES, valued("engine")),
    provider: oneOf("provider", PROVIDERS, valued("provider")),
    device: wholeNumber("device", valued("device"), 63, 0),
    acceleratorType: parseAcceleratorType(flag("accelerator-type")),
    jitter: parseJitter(flag("jitter")),
    memory: parseMemory(flag("memory")),
    threads: wholeNumber("threads", valued("threads"), 64),
    part: wholeNumber("part", valued("part"), 100),
    state: flag("state") ?? temporaryFolder(),
    policy: parsePolicy(valued("policy")),
    prefer: oneOf("prefer", PREFERENCES, valued("prefer")),
    gather: oneOf("gather", GATHERS, valued("gather")),
    latency: oneOf("latency", LATENCIES, valued("latency")),
    patience: parsePatience(flag("patience")),
    dataPlane: oneOf("data-plane", DATA_PLANES, valued("data-plane")),
    dataHost: valued("data-host"),
    replyScope: oneOf("reply-scope", REPLY_SCOPES, valued("reply-scope")),
    pipelines: flag("pipelines"),
    warmup: parseWarmup(valued("warmup")),
    awaitModels: namesOf("await-models", flag("await-models")),
    httpHost: valued("http-host"),
    httpPort: optionalPort("http-port", flag("http-port")),
    grpcPort: optionalPort("grpc-port", flag("grpc-port")),
    metricsPort: optionalPort("metrics-port", flag("metrics-port")),
    metricsHost: valued("metrics-host"),
    allowedHosts: hostsOf("allowed-hosts", flag("allowed-hosts")),
    systemSharedMemory: sharedMemoryOf(flag),
    adminToken: flag("admin-token"),
    repositoryCreds: flag("repository-creds"),
    ...accessOf(flag),
    traceQuery: httpAddress("trace-query", flag("trace-query")),
    epoch: parseEpoch(valued("epoch")),
    budgetShare: parseBudgetShare(valued("budget-share")),
    subClustersMin: wholeNumber("sub-clusters-min", valued("sub-clusters-min"), 1_024),
    logLevel: oneOf("log-level", LOG_LEVELS, valued("log-level")),
    otlp: flag("otlp"),
    agentCreds: flag("agent-creds"),
    health: parseHostPort("health", flag("health")),
  };
}

/** The default of an option, which a role that doesn't have the option has too. */
function defaultOf(name: string): string {
  const usual = FLAGS.find((spec) => spec.name === name)?.default;
  assert(usual !== undefined, `--${name} has no default`);
  return usual;
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

function certificateOf(flag: (name: string) => string | undefined): Pick<RoleOptions, "tlsCert" | "tlsKey"> {
  const tlsCert = flag("tls-cert");
  const tlsKey = flag("tls-key");
  if ((tlsCert === undefined) !== (tlsKey === undefined)) throw usageError("--tls-cert and --tls-key go together");
  return { tlsCert, tlsKey };
}

/**
 * Parses a role's command line.
 *
 * @param more - options of the command itself
 * @throws {CommandError} listing the flags that there are
 */
export function parseRoleFlags(
  roles: Role | readonly Role[],
  argv: readonly string[],
  more: readonly OptionSpec[] = [],
): ReadonlyMap<string, string> {
  try {
    const options = Object.fromEntries(
      [...more, ...flagsOf(roles)].map(({ name, value, short }) => [
        name,
        {
          type: value === undefined ? ("boolean" as const) : ("string" as const),
          ...(short !== undefined && { short }),
        },
      ]),
    );
    const { values } = parseArgs({
      ...{ args: withCurrentNames(argv), options, strict: true },
      ...{ allowPositionals: false, allowNegative: true },
    });
    return new Map(Object.entries(values).map(([name, value]) => [name, String(value)]));
  } catch (error) {
    throw usageError(
      `${(error as Error).message}\n\`tutti run ${[roles].flat().join(",")}\` takes:\n${roleHelp(roles)}`,
    );
  }
}
