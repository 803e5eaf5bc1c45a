/** The flags of `tutti up`, checked before anything starts. */
import { availableParallelism } from "node:os";
import { resolve } from "node:path";
import { OCR_PIPELINE_FOLDER } from "@tutti/pipeline-ocr/folder";
import { appNameProblem } from "@tutti/protocol";
import { GPUS_MAX, type Micros, formatDuration, parseDuration, seconds } from "@tutti/units";
import { usageError } from "@tutti/admin";
import { isModelUrl } from "@tutti/admin/models";
import { nvidiaGpus } from "../parts/nvidia-gpus.ts";
import {
  oneOf,
  parseAcceleratorType,
  parseBudgetShare,
  parseEpoch,
  parseMemory,
  parsePatience,
  parseWarmup,
  parsePolicy,
  parsePort,
} from "../role/option-values.ts";
import { parseRoleOptions } from "../role/role-options.ts";
import { type OptionInForce, placed } from "../options/options-in-force.ts";
import { LAYOUTS, upFlagsOf } from "./up-flags.ts";
import { DATA_PLANES, GATHERS, LATENCIES, LOG_LEVELS, PREFERENCES, PROVIDERS } from "../role/role-flags.ts";

/** @throws {CommandError} naming the flag or the place in the file, and what it takes */
export function readUpOptions(options: readonly OptionInForce[]): UpOptions {
  try {
    return parseUpOptions(upFlagsOf(options));
  } catch (error) {
    throw placed(error, options);
  }
}

/** The values of UP_OPTIONS: texts. */
export interface UpFlags {
  readonly port?: string;
  readonly nats?: string;
  readonly creds?: string;
  readonly tlsCa?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly executors?: string;
  readonly cores?: string;
  readonly autoscale?: string;
  readonly divide?: string | true;
  readonly epoch?: string;
  readonly budgetShare?: string;
  readonly layout?: string;
  readonly nodes?: string;
  readonly ingresses?: string;
  readonly batchers?: string;
  readonly rankers?: string;
  readonly subClusters?: string;
  readonly subClustersMin?: string;
  readonly memory?: string;
  readonly emulatedExecutors?: string;
  readonly emulate?: string;
  readonly gpus?: string;
  readonly models?: string;
  readonly modelsPoll?: string;
  readonly pipelines?: string;
  readonly demo: boolean;
  readonly policy: string;
  readonly prefer?: string;
  readonly gather: string;
  readonly latency?: string;
  readonly patience?: string;
  readonly provider: string;
  readonly acceleratorType?: string;
  readonly dataPlane: string;
  readonly httpPort?: string;
  readonly grpcPort?: string;
  readonly metricsPort?: string;
  readonly httpHost?: string;
  readonly httpTlsCert?: string;
  readonly httpTlsKey?: string;
  readonly apiKeys?: string;
  readonly jwks?: string;
  readonly jwtIssuer?: string;
  readonly jwtAudience?: string;
  readonly insecureNoAuth?: boolean;
  readonly systemSharedMemory?: boolean;
  readonly adminToken?: string;
  readonly apps?: string;
  readonly warmup?: string;
  readonly otlp?: string;
  readonly jaeger?: boolean;
  readonly logLevel: string;
  readonly onceReady?: string;
  readonly json?: boolean;
}

export interface UpOptions {
  /** Undefined: 4222 if it is free, else any. */
  readonly port: number | undefined;
  /** Servers to use instead of starting one. */
  readonly nats: string | undefined;
  readonly creds: string | undefined;
  /** Paths. A NATS server that is started and the ingress use the certificate. */
  readonly tls:
    { readonly ca: string; readonly cert: string | undefined; readonly key: string | undefined } | undefined;
  /** Applications that get credentials; if there are any, requests without credentials are refused. */
  readonly apps: readonly string[];
  /** Number of executors; with `autoscale` the maximum. */
  readonly executors: number;
  /**
   * Cores of each executor on a CPU, which is bound to them and uses them all for a run. Undefined: one thread on any
   * core.
   */
  readonly coresEach?: number | undefined;
  /** Bounds on the executors' processes, whose number follows the planner's advice. */
  readonly autoscale: { readonly min: number; readonly max: number } | undefined;
  /**
   * Whether accelerators run as halves while that carries more. A path: an input of `tutti plan fractions`, with
   * latencies on halves; true: emulated executors know theirs.
   */
  readonly divide: string | boolean;
  /** Period of the planner's load balancing. */
  readonly epoch: Micros;
  /** Share of all models' memory that the planner may move in an epoch only to balance loads. */
  readonly budgetShare: number;
  /** `node`: all roles but executors share a process; `spread`: each role has its own. */
  readonly layout: (typeof LAYOUTS)[number];
  /** For `node`: number of nodes, including hot standbys. */
  readonly nodes: number;
  /** For `spread`. */
  readonly ingresses: number;
  readonly batchers: number;
  /** Rankers of each sub-cluster. */
  readonly rankers: number;
  /** Sub-clusters besides `main`. */
  readonly otherSubClusters: readonly string[];
  /** Sub-clusters that the planner uses whatever that costs. */
  readonly subClustersMin: number;
  /** Memory of each executor's accelerator for the weights of its models. */
  readonly memory: string | undefined;
  /** Emulated executors beside the real ones: runs take a model's own `latencies`, and echo their input. */
  readonly emulatedExecutors: number;
  readonly emulate: string | undefined;
  readonly emulatedGpus: number;
  readonly models: string | undefined;
  /** How often the models' repository is looked at again; undefined: never. */
  readonly modelsPoll: Micros | undefined;
  /** Folder of pipelines, for every ingress. Default: the demo's folder, which needs the demo's models. */
  readonly pipelines: string | undefined;
  readonly demo: boolean;
  readonly onceReady: string | undefined;
  readonly json: boolean;
  readonly policy: string;
  readonly prefer: (typeof PREFERENCES)[number];
  readonly gather: string;
  readonly latency: string;
  readonly patience: string | undefined;
  readonly provider: string;
  readonly acceleratorType: string | undefined;
  readonly dataPlane: string;
  /** Flags for gateways' command lines. The ports apply to the first gateway only, the access rules to all. */
  readonly gateway: readonly string[];
  readonly gatewayAccess: readonly string[];
  readonly adminToken: string | undefined;
  readonly warmup: Micros;
  readonly otlp: string | undefined;
  /** URL of the Jaeger that runs beside the cluster. */
  readonly traceQuery?: string;
  /** Whether to run a Jaeger beside the cluster, which gets its traces. */
  readonly jaeger: boolean;
  readonly logLevel: string;
}

/** Maximum number of processes of one role on one machine. */
const ROLE_MAX = 16;

/**
 * @param gpusHere - counts this host's NVIDIA GPUs
 * @throws {CommandError} naming the flag and what it takes
 */
export function parseUpOptions(flags: UpFlags, gpusHere: () => number = nvidiaGpus): UpOptions {
  // Checked here, so that an error gives one message instead of one from each child.
  parsePolicy(flags.policy);
  parsePatience(flags.patience);
  parseMemory(flags.memory);
  if (flags.creds !== undefined && flags.nats === undefined) throw usageError("--creds goes with --nats");
  if (flags.port !== undefined && flags.nats !== undefined)
    throw usageError("--port is for a server that is started, --nats for one that runs");
  if (flags.jaeger === true && flags.otlp !== undefined)
    throw usageError(
      "--jaeger runs one and sends the traces there, --otlp sends them to one that runs: give one of them",
    );
  const autoscale = autoscaleOf(flags);
  const demo = flags.demo && flags.emulate === undefined;
  const subClusters = countOf("sub-clusters", flags.subClusters ?? "1", ROLE_MAX);
  const coresEach = flags.cores === undefined ? undefined : countOf("cores", flags.cores, availableParallelism());
  const gpus = flags.provider === "cuda" && flags.emulate === undefined ? gpusHere() : 0;
  const usual = coresEach === undefined ? executorsOf(flags, { subClusters, gpus }) : coreGroups(coresEach);
  const executors = autoscale?.max ?? countOf("executors", flags.executors ?? String(usual), 256);
  checkCores(flags, { coresEach, executors });
  if (gpus > 0 && executors > gpus)
    throw usageError(
      `${flags.executors === undefined && autoscale === undefined ? `--sub-clusters ${subClusters}: ` : ""}${executors} executors with --provider cuda: each takes a GPU for its own, and there ${gpus === 1 ? "is one" : `are ${gpus}`}; ` +
        "`tutti split` makes parts of one",
    );
  return {
    port: flags.port === undefined ? undefined : parsePort("port", flags.port),
    nats: flags.nats,
    creds: flags.creds,
    tls: tlsOf(flags),
    apps: appsOf(flags.apps),
    executors,
    coresEach,
    autoscale,
    divide: divideOf(flags, { subClusters, coresEach }),
    epoch: parseEpoch(flags.epoch),
    budgetShare: parseBudgetShare(flags.budgetShare),
    ...layoutOf(flags),
    ingresses: countOf("ingresses", flags.ingresses ?? "1", ROLE_MAX),
    batchers: countOf("batchers", flags.batchers ?? "1", ROLE_MAX),
    rankers: countOf("rankers", flags.rankers ?? "2", ROLE_MAX),
    otherSubClusters: Array.from({ length: subClusters - 1 }, (_, i) => `s${i + 1}`),
    subClustersMin: leastSubClusters(flags.subClustersMin ?? "1", subClusters),
    memory: flags.memory,
    emulatedExecutors:
      flags.emulatedExecutors === undefined ? 0 : countOf("emulated-executors", flags.emulatedExecutors, 256),
    emulate: flags.emulate,
    emulatedGpus: countOf("gpus", flags.gpus ?? String(autoscale?.max ?? 8), GPUS_MAX),
    models: flags.models,
    modelsPoll: modelsPollOf(flags),
    pipelines: flags.pipelines === undefined ? (demo ? OCR_PIPELINE_FOLDER : undefined) : resolve(flags.pipelines),
    demo,
    onceReady: flags.onceReady,
    json: flags.json === true,
    policy: flags.policy,
    // Accelerators must be idle before they can be released.
    prefer: oneOf("prefer", PREFERENCES, flags.prefer ?? (autoscale === undefined ? "latency" : "accelerators")),
    gather: oneOf("gather", GATHERS, flags.gather),
    latency: oneOf("latency", LATENCIES, flags.latency ?? "hints"),
    patience: flags.patience,
    provider: oneOf("provider", PROVIDERS, flags.provider),
    acceleratorType: parseAcceleratorType(flags.acceleratorType),
    dataPlane: oneOf("data-plane", DATA_PLANES, flags.dataPlane),
    gateway: gatewayPorts(flags),
    gatewayAccess: gatewayAccess(flags),
    adminToken: flags.adminToken === undefined ? undefined : resolve(flags.adminToken),
    warmup: parseWarmup(flags.warmup),
    otlp: flags.otlp,
    jaeger: flags.jaeger === true,
    logLevel: oneOf("log-level", LOG_LEVELS, flags.logLevel),
  };
}

/** A count of a role's processes selects the layout `spread`. */
function layoutOf(flags: UpFlags): Pick<UpOptions, "layout" | "nodes"> {
  const counted = (["ingresses", "batchers", "rankers"] as const).find((role) => flags[role] !== undefined);
  const layout = oneOf("layout", LAYOUTS, flags.layout ?? (counted === undefined ? "node" : "spread"));
  if (layout === "node" && counted !== undefined)
    throw usageError(
      `--${counted} goes with --layout spread: a node hosts one of each role, and --nodes says how many nodes`,
    );
  if (layout === "spread" && flags.nodes !== undefined) throw usageError("--nodes goes with --layout node");
  return { layout, nodes: countOf("nodes", flags.nodes ?? "1", ROLE_MAX) };
}

/** Ports of the gateway; a missing one means the usual port if it is free. */
function gatewayPorts({ httpPort, grpcPort, metricsPort }: UpFlags): string[] {
  const flag = (name: string, port: string | undefined): string[] =>
    port === undefined ? [] : [`--${name}`, String(parsePort(name, port))];
  return [...flag("http-port", httpPort), ...flag("grpc-port", grpcPort), ...flag("metrics-port", metricsPort)];
}

/** @throws {CommandError} as the gateway itself would, but once and before anything starts */
function gatewayAccess(flags: UpFlags): string[] {
  const given = {
    ...{ "http-host": flags.httpHost, "http-tls-cert": flags.httpTlsCert, "http-tls-key": flags.httpTlsKey },
    ...{ "api-keys": flags.apiKeys, jwks: flags.jwks },
    ...{ "jwt-issuer": flags.jwtIssuer, "jwt-audience": flags.jwtAudience },
  };
  const values = Object.entries(given).flatMap(([name, value]) => (value === undefined ? [] : [`--${name}`, value]));
  const argv = [
    ...values,
    ...(flags.insecureNoAuth === true ? ["--insecure-no-auth"] : []),
    ...(flags.systemSharedMemory === true ? ["--system-shared-memory"] : []),
  ];
  parseRoleOptions("gateway", argv, {});
  return argv;
}

/** Parses `1:4`. */
function autoscaleOf({ autoscale, executors, emulatedExecutors, gpus }: UpFlags): UpOptions["autoscale"] {
  if (autoscale === undefined) return undefined;
  if (executors !== undefined || emulatedExecutors !== undefined)
    throw usageError("--autoscale says how many executors there are: without --executors and --emulated-executors");
  const match = /^(\d+):(\d+)$/.exec(autoscale);
  const [min, max] = [Number(match?.[1]), Number(match?.[2])];
  if (match === null || min < 1 || max < min || max > 256)
    throw usageError(`--autoscale ${autoscale}: executors at least and at most, such as 1:4, up to 256`);
  if (gpus !== undefined && Number(gpus) % max !== 0)
    throw usageError(
      `--gpus ${gpus}: with --autoscale ${autoscale} a multiple of ${max}, since executors have as many accelerators each`,
    );
  return { min, max };
}

function divideOf(
  { divide, autoscale, emulate }: UpFlags,
  { subClusters, coresEach = 2 }: { readonly subClusters: number; readonly coresEach: number | undefined },
): string | boolean {
  if (divide === undefined) return false;
  if (autoscale !== undefined) throw usageError("--divide and --autoscale don't go together yet");
  if (subClusters > 1) throw usageError("--divide and --sub-clusters don't go together yet");
  if (coresEach % 2 === 1)
    throw usageError(`--divide: ${coresEach} cores can't be halved; give --cores an even number`);
  if (divide === true && emulate === undefined)
    throw usageError(
      "--divide needs the models' latencies on halves: `tutti profile --interference --out measured.yaml`, then --divide measured.yaml",
    );
  return divide;
}

function tlsOf({ tlsCa, tlsCert, tlsKey, nats }: UpFlags): UpOptions["tls"] {
  if ((tlsCert === undefined) !== (tlsKey === undefined)) throw usageError("--tls-cert and --tls-key go together");
  if (tlsCa === undefined) {
    if (tlsCert !== undefined) throw usageError("--tls-cert needs --tls-ca: the authority that has signed it");
    return undefined;
  }
  if (tlsCert === undefined && nats === undefined)
    throw usageError("--tls-ca: the NATS server that is started needs --tls-cert and --tls-key");
  return { ca: resolve(tlsCa), cert: tlsCert && resolve(tlsCert), key: tlsKey && resolve(tlsKey) };
}

/**
 * Default number of executors. Emulated accelerators share one process for each sub-cluster. With more processes, one
 * can be drained or restarted while the others serve; all accelerators of a process belong to one sub-cluster. Each GPU
 * has one executor, and so have most cores; behind WebGPU the driver chooses the GPU, so there is one.
 *
 * @param count.gpus - 0 where none can be counted
 */
function executorsOf({ emulate, provider }: UpFlags, count: { subClusters: number; gpus: number }): number {
  const all = provider === "cpu" ? availableParallelism() - 1 : count.gpus;
  return Math.max(count.subClusters, emulate === undefined ? all : 1);
}

const coreGroups = (coresEach: number): number => Math.floor(availableParallelism() / coresEach);

function checkCores(
  { provider, emulate }: UpFlags,
  { coresEach, executors }: Pick<UpOptions, "coresEach" | "executors">,
): void {
  if (coresEach === undefined) return;
  if (provider !== "cpu" || emulate !== undefined)
    throw usageError("--cores is for executors on a CPU: without --emulate and another --provider");
  if (executors > coreGroups(coresEach))
    throw usageError(
      `--cores ${coresEach}: ${executors} executors would need ${coresEach * executors} cores, and there are ${availableParallelism()}`,
    );
}

function appsOf(text: string | undefined): string[] {
  const apps = text === undefined ? [] : text.split(",").map((app) => app.trim());
  const problem = apps.map(appNameProblem).find((found) => found !== undefined);
  if (problem !== undefined) throw usageError(`--apps: ${problem}`);
  return apps;
}

/** A list of a bucket costs a request for a thousand objects. */
const POLL = seconds(30);
const POLL_LEAST = seconds(1);
/** A timer that is set for more than 24 days fires at once. */
const POLL_MAX = seconds(86_400);

function modelsPollOf({ models, modelsPoll }: UpFlags): Micros | undefined {
  const usual = models !== undefined && isModelUrl(models) ? POLL : undefined;
  if (modelsPoll === undefined) return usual;
  if (models === undefined) throw usageError("--models-poll goes with --models");
  const every = parseDuration(modelsPoll);
  if (every !== undefined && every >= POLL_LEAST && every <= POLL_MAX) return every;
  throw usageError(`--models-poll ${modelsPoll}: a duration from ${formatDuration(POLL_LEAST)} to 24 h, such as 30s`);
}

function leastSubClusters(text: string, subClusters: number): number {
  const least = countOf("sub-clusters-min", text, ROLE_MAX);
  if (least <= subClusters) return least;
  throw usageError(`--sub-clusters-min ${text}: there are ${subClusters}; give --sub-clusters ${text}`);
}

function countOf(flag: string, text: string, max: number): number {
  const count = Number(text);
  if (Number.isInteger(count) && count >= 1 && count <= max) return count;
  throw usageError(`--${flag} ${text}: a number from 1 to ${max}`);
}
