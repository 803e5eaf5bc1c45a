import type { Role } from "@tutti/protocol";
import { WHOLE } from "@tutti/planning";
import { parseBytes } from "@tutti/units";
import { type Machine, launchOf } from "../parts/part-launch.ts";
import type { SplittableExecutor } from "../parts/part-switch.ts";
import type { UpOptions } from "./up-options.ts";

export interface PlannedRole {
  /** Also the name of its log file. */
  readonly name: string;
  readonly role: Role;
  readonly argv: readonly string[];
  /** Started when it is needed. */
  readonly isSpare?: boolean;
  /** What it is run by: binds it to its cores. */
  readonly prefix?: readonly string[];
  /** executor: how many accelerators it drives. */
  readonly gpus?: number;
  /** executor: whose accelerator `tutti split` can split, or why it can't. */
  readonly splittable?: Splittable;
  readonly unsplittable?: string;
}
type Splittable = Omit<SplittableExecutor, "spec">;

export interface Surroundings {
  readonly jitter?: { readonly seed: number; readonly spread: number } | undefined;
  readonly url: string;
  /** Where executors note what they are doing. */
  readonly state?: string | undefined;
  /** Whether processes can be bound to cores. Default: they can't. */
  readonly hasTaskset?: boolean;
  readonly credentials: Readonly<Partial<Record<Role | "admin" | "answers", string>>>;
}

/** The processes of one machine: by default an ingress, a batcher, a leading ranker and its spare, the executors, and those that watch. */
export function planCluster(options: UpOptions, around: Surroundings): PlannedRole[] {
  const planned = (name: string, role: Role, ...argv: string[]): PlannedRole => {
    const credentials = around.credentials[role];
    const common = ["--nats", around.url, ...(credentials === undefined ? [] : ["--creds", credentials])];
    const tls = options.tls === undefined ? [] : tlsFlags(role, options.tls);
    const telemetry = [
      "--log-level",
      options.logLevel,
      ...(options.otlp === undefined ? [] : ["--otlp", options.otlp]),
    ];
    return { name, role, argv: [...common, ...tls, ...telemetry, ...argv] };
  };
  const patience = options.patience === undefined ? [] : ["--patience", options.patience];
  const batching = ["--policy", options.policy, "--gather", options.gather, "--latency", options.latency];
  const replyScope = options.apps.length > 0 ? "app" : "any";
  const dataPlane = ["--data-plane", options.dataPlane];
  const state = around.state === undefined ? [] : ["--state", around.state];
  const memory = options.memory === undefined ? [] : ["--memory", options.memory];
  const pipelines = options.pipelines === undefined ? [] : ["--pipelines", options.pipelines];
  const rehearsal = ["--rehearsal", `${options.rehearsal}us`];
  const { answers } = around.credentials;
  const answersCreds = answers === undefined ? [] : ["--answers-creds", answers];
  return [
    ...Array.from({ length: options.rankers }, (_, index) => planned(`ranker-${index}`, "ranker")),
    ...options.otherSubClusters.flatMap((subCluster) =>
      Array.from({ length: options.rankers }, (_, index) =>
        planned(`ranker-${subCluster}-${index}`, "ranker", "--sub-cluster", subCluster),
      ),
    ),
    ...namesOf("batcher", options.batchers).map((name) => planned(name, "batcher", ...batching, ...patience)),
    ...planExecutors(options, around).map(({ argv, ...executor }, index) => ({
      ...planned(`executor-${index}`, "executor", ...state, ...dataPlane, ...memory, ...argv),
      ...executor,
      ...(options.autoscale !== undefined && index >= options.autoscale.min && { isSpare: true }),
    })),
    ...namesOf("ingress", options.ingresses).map((name) =>
      planned(name, "ingress", "--reply-scope", replyScope, ...answersCreds, ...rehearsal, ...dataPlane, ...pipelines),
    ),
    planned("profiler", "profiler"),
    planned("planner", "planner", "--epoch", `${options.epoch}us`, "--budget-share", String(options.budgetShare)),
    planned(
      "gateway",
      "gateway",
      ...options.gateway,
      ...traceFlags(options),
      ...repositoryFlags(options, around.credentials["admin"]),
    ),
  ];
}

/** Of a Jaeger beside it. */
const traceFlags = ({ traceQuery }: UpOptions): string[] =>
  traceQuery === undefined ? [] : ["--trace-query", traceQuery];

/** The gateway's own rights are few: models are changed with the operator's. */
function repositoryFlags({ repositoryToken }: UpOptions, admin: string | undefined): string[] {
  if (repositoryToken === undefined) return [];
  return ["--repository-token", repositoryToken, ...(admin === undefined ? [] : ["--repository-creds", admin])];
}

/** The only one of its role needs no number. */
const namesOf = (role: string, count: number): string[] =>
  count === 1 ? [role] : Array.from({ length: count }, (_, index) => `${role}-${index}`);

type PlannedExecutor = Pick<PlannedRole, "argv" | "prefix" | "gpus" | "splittable" | "unsplittable">;

/** A real accelerator has a process of its own, since a native fault takes its process down; emulated ones share as many as asked for. */
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
      const engine = isEmulated ? ["--engine", "emulated"] : ["--provider", options.provider];
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

function tlsFlags(role: Role, { ca, cert, key }: NonNullable<UpOptions["tls"]>): string[] {
  const own =
    role !== "ingress" || cert === undefined || key === undefined ? [] : ["--tls-cert", cert, "--tls-key", key];
  return ["--tls-ca", ca, ...own];
}
