import { type ProcessRole, type Role, NODE_ROLES } from "@tutti/protocol";
import { WHOLE } from "@tutti/planning";
import { parseBytes } from "@tutti/units";
import { type Machine, launchOf } from "../parts/part-launch.ts";
import type { SplittableExecutor } from "../parts/part-switch.ts";
import type { UpOptions } from "./up-options.ts";

export interface PlannedRole {
  /** Name of the process and of its log file. */
  readonly name: string;
  readonly role: ProcessRole;
  /** Roles that the process hosts. */
  readonly roles: readonly Role[];
  readonly argv: readonly string[];
  /** Parked until it is needed. */
  readonly isSpare?: boolean;
  /** Command prefix that binds the process to its cores. */
  readonly prefix?: readonly string[];
  /** For an executor: how many accelerators it drives. */
  readonly gpus?: number;
  /** For an executor: how `tutti split` can split its accelerator, or why it can't. */
  readonly splittable?: Splittable;
  readonly unsplittable?: string;
}
type Splittable = Omit<SplittableExecutor, "spec">;

export interface Surroundings {
  readonly jitter?: { readonly seed: number; readonly spread: number } | undefined;
  readonly url: string;
  /** Folder in which executors note which model they run. */
  readonly state?: string | undefined;
  /** Names of the models that will be loaded. */
  readonly models?: readonly string[];
  /** Whether processes can be bound to cores. Default: false. */
  readonly hasTaskset?: boolean;
  readonly credentials: Readonly<Partial<Record<ProcessRole | "admin" | "answers", string>>>;
}

/** The processes of one machine: nodes and executors, or with the layout `spread` a process for each role. */
export function planCluster(options: UpOptions, around: Surroundings): PlannedRole[] {
  const planned = (name: string, role: ProcessRole, roles: readonly Role[], argv: readonly string[]): PlannedRole => {
    const credentials = around.credentials[role];
    const common = ["--nats", around.url, ...(credentials === undefined ? [] : ["--creds", credentials])];
    const tls = options.tls === undefined ? [] : tlsFlags(roles, options.tls);
    const telemetry = [
      "--log-level",
      options.logLevel,
      ...(options.otlp === undefined ? [] : ["--otlp", options.otlp]),
    ];
    return { name, role, roles, argv: [...common, ...tls, ...telemetry, ...argv] };
  };
  const flags = roleFlags(options, around);
  const alone = (name: string, role: Role, ...more: string[]): PlannedRole =>
    planned(name, role, [role], [...flags[role], ...more]);
  const several = (role: Role, count: number): PlannedRole[] => namesOf(role, count).map((name) => alone(name, role));
  const rankersOf = (prefix: string, ...more: string[]): PlannedRole[] =>
    Array.from({ length: options.rankers }, (_, index) => alone(`${prefix}-${index}`, "ranker", ...more));
  const executors = planExecutors(options, around).map(({ argv, ...executor }, index) => ({
    ...alone(`executor-${index}`, "executor", ...argv),
    ...executor,
    ...(options.autoscale !== undefined && index >= options.autoscale.min && { isSpare: true }),
  }));
  const others = options.otherSubClusters.flatMap((name) => rankersOf(`ranker-${name}`, "--sub-cluster", name));
  if (options.layout === "node") {
    const nodeFlags = NODE_ROLES.flatMap((role) => flags[role]);
    const nodes = namesOf("node", options.nodes).map((name, index) =>
      planned(name, "node", NODE_ROLES, [...nodeFlags, ...gatewayPorts(options.gateway, index)]),
    );
    return [...nodes, ...others, ...executors];
  }
  return [
    ...rankersOf("ranker"),
    ...others,
    ...several("batcher", options.batchers),
    ...executors,
    ...several("ingress", options.ingresses),
    ...several("profiler", 1),
    ...several("planner", 1),
    ...several("jobs", 1),
    alone("gateway", "gateway", ...gatewayPorts(options.gateway, 0)),
  ];
}

/** The flags of each role, without those that all roles have. */
function roleFlags(options: UpOptions, around: Surroundings): Readonly<Record<Role, readonly string[]>> {
  const { answers } = around.credentials;
  const dataPlane = ["--data-plane", options.dataPlane];
  return {
    ranker: [],
    batcher: [
      ...[
        "--policy",
        options.policy,
        "--prefer",
        options.prefer,
        "--gather",
        options.gather,
        "--latency",
        options.latency,
      ],
      ...(options.patience === undefined ? [] : ["--patience", options.patience]),
    ],
    executor: [
      ...(around.state === undefined ? [] : ["--state", around.state]),
      ...dataPlane,
      ...(options.memory === undefined ? [] : ["--memory", options.memory]),
      ...(options.acceleratorType === undefined ? [] : ["--accelerator-type", options.acceleratorType]),
    ],
    ingress: [
      ...["--reply-scope", replyScopeOf(options)],
      ...(answers === undefined ? [] : ["--answers-creds", answers]),
      ...["--warmup", `${options.warmup}us`],
      ...dataPlane,
      ...(options.pipelines === undefined ? [] : ["--pipelines", options.pipelines]),
    ],
    profiler: [],
    jobs: ["--reply-scope", replyScopeOf(options)],
    planner: [
      ...["--epoch", `${options.epoch}us`, "--budget-share", String(options.budgetShare)],
      ...["--sub-clusters-min", String(options.subClustersMin)],
    ],
    gateway: [
      ...awaitFlags(around.models ?? []),
      ...traceFlags(options),
      ...options.gatewayAccess,
      ...repositoryFlags(options, around.credentials["admin"]),
    ],
  };
}

/**
 * Chooses the reply scope. Without credentials every client is the user `local`. That user sends requests in any
 * application's name from one inbox. With credentials, replies are checked.
 */
const replyScopeOf = ({ apps, creds }: UpOptions): "app" | "any" =>
  apps.length > 0 || creds !== undefined ? "app" : "any";

/** Only the first gateway of a machine has the requested ports; the others use free ones. */
const gatewayPorts = (flags: readonly string[], index: number): readonly string[] =>
  index === 0 ? flags : flags.map((flag) => (flag.startsWith("--") ? flag : "0"));

const awaitFlags = (models: readonly string[]): string[] =>
  models.length === 0 ? [] : ["--await-models", models.join(",")];

/** Flags for a Jaeger beside the cluster. */
const traceFlags = ({ traceQuery }: UpOptions): string[] =>
  traceQuery === undefined ? [] : ["--trace-query", traceQuery];

/** Flags for changing models, with the operator's credentials: the gateway's own rights don't allow it. */
function repositoryFlags({ adminToken }: UpOptions, admin: string | undefined): string[] {
  if (adminToken === undefined) return [];
  return ["--admin-token", adminToken, ...(admin === undefined ? [] : ["--repository-creds", admin])];
}

/** The names of a role's processes; a single one has no number. */
const namesOf = (role: ProcessRole, count: number): string[] =>
  count === 1 ? [role] : Array.from({ length: count }, (_, index) => `${role}-${index}`);

type PlannedExecutor = Pick<PlannedRole, "argv" | "prefix" | "gpus" | "splittable" | "unsplittable">;

/**
 * Plans the executors. A real accelerator has its own process, since a native fault crashes its process. The emulated
 * accelerators are distributed over as many processes as requested.
 */
function planExecutors(options: UpOptions, { jitter, hasTaskset = false }: Surroundings): PlannedExecutor[] {
  const scaled = "with --autoscale the planner's advice counts whole ones";
  const memory = options.memory === undefined ? undefined : parseBytes(options.memory);
  const splittable = (gpu: number, machine: Machine): Pick<PlannedRole, "splittable" | "unsplittable"> =>
    options.autoscale === undefined ? { splittable: { gpu, machine, memory } } : { unsplittable: scaled };
  const emulated: Machine = { provider: "emulated", cores: [], hasTaskset };
  if (options.emulate === undefined) {
    const all = options.executors + options.emulatedExecutors;
    return Array.from({ length: all }, (_, gpu): PlannedExecutor => {
      const isEmulated = gpu >= options.executors;
      const device = options.provider === "cuda" ? ["--device", String(gpu)] : [];
      const engine = isEmulated ? ["--engine", "emulated"] : ["--provider", options.provider, ...device];
      const argv = ["--gpus", String(gpu), ...engine];
      if (isEmulated) return { argv, gpus: 1, ...splittable(gpu, emulated) };
      const { coresEach } = options;
      const provider = options.provider as Machine["provider"];
      if (coresEach === undefined) {
        const needsCores = "a CPU's parts are cores: start with --cores, such as `tutti up --cores 4`";
        if (provider === "cpu") return { argv, gpus: 1, unsplittable: needsCores };
        return { argv, gpus: 1, ...splittable(gpu, { provider, cores: [], hasTaskset }) };
      }
      const cores = Array.from({ length: coresEach }, (__, core) => gpu * coresEach + core);
      const machine: Machine = { provider, cores, hasTaskset };
      const { prefix } = launchOf({ size: WHOLE, place: 0 }, machine);
      return { argv: [...argv, "--threads", String(coresEach)], prefix, gpus: 1, ...splittable(gpu, machine) };
    });
  }
  const spread = jitter === undefined ? [] : ["--jitter", `${jitter.spread}:${jitter.seed}`];
  const count = Math.min(options.executors, options.emulatedGpus);
  return Array.from({ length: count }, (_, i): PlannedExecutor => {
    const [first, last] = [i, i + 1].map((part) => Math.floor((part * options.emulatedGpus) / count)) as [
      number,
      number,
    ];
    const gpus = last - first;
    const argv = ["--engine", "emulated", "--gpus", gpus === 1 ? String(first) : `${first}-${last - 1}`, ...spread];
    if (gpus === 1) return { argv, gpus, ...splittable(first, emulated) };
    return { argv, gpus, unsplittable: `it drives ${gpus} accelerators: start more executors (--executors)` };
  });
}

function tlsFlags(roles: readonly Role[], { ca, cert, key }: NonNullable<UpOptions["tls"]>): string[] {
  const own =
    !roles.includes("ingress") || cert === undefined || key === undefined ? [] : ["--tls-cert", cert, "--tls-key", key];
  return ["--tls-ca", ca, ...own];
}
