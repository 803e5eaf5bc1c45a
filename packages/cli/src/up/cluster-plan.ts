import type { Role } from "@tutti/protocol";
import type { UpOptions } from "./up-options.ts";

export interface PlannedRole {
  /** Also the name of its log file. */
  readonly name: string;
  readonly role: Role;
  readonly argv: readonly string[];
}

export interface Surroundings {
  readonly jitter?: { readonly seed: number; readonly spread: number } | undefined;
  readonly url: string;
  /** Where executors note what they are doing. */
  readonly state?: string | undefined;
  readonly credentials: Readonly<Partial<Record<Role, string>>>;
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
  const replyScope = options.apps.length > 0 ? "app" : "any";
  const dataPlane = ["--data-plane", options.dataPlane];
  const state = around.state === undefined ? [] : ["--state", around.state];
  const rehearsal = ["--rehearsal", `${options.rehearsal}us`];
  return [
    ...Array.from({ length: options.rankers }, (_, index) => planned(`ranker-${index}`, "ranker")),
    ...namesOf("batcher", options.batchers).map((name) =>
      planned(name, "batcher", "--policy", options.policy, "--gather", options.gather, ...patience),
    ),
    ...planExecutors(options, around.jitter).map((argv, index) =>
      planned(`executor-${index}`, "executor", ...state, ...dataPlane, ...argv),
    ),
    ...namesOf("ingress", options.ingresses).map((name) =>
      planned(name, "ingress", "--reply-scope", replyScope, ...rehearsal, ...dataPlane),
    ),
    planned("profiler", "profiler"),
    planned("planner", "planner"),
    planned("gateway", "gateway", "--http-port", options.httpPort),
  ];
}

/** The only one of its role needs no number. */
const namesOf = (role: string, count: number): string[] =>
  count === 1 ? [role] : Array.from({ length: count }, (_, index) => `${role}-${index}`);

/** A real accelerator has a process of its own, since a native fault takes its process down; emulated ones share as many as asked for. */
function planExecutors(options: UpOptions, jitter: Surroundings["jitter"]): string[][] {
  if (options.emulate === undefined) {
    const all = options.executors + options.emulatedExecutors;
    return Array.from({ length: all }, (_, gpu) => {
      const engine = gpu < options.executors ? ["--provider", options.provider] : ["--engine", "emulated"];
      return ["--gpus", String(gpu), ...engine];
    });
  }
  const spread = jitter === undefined ? [] : ["--jitter", `${jitter.spread}:${jitter.seed}`];
  const count = Math.min(options.executors, options.emulatedGpus);
  return Array.from({ length: count }, (_, i) => {
    const [first, last] = [i, i + 1].map((part) => Math.floor((part * options.emulatedGpus) / count));
    const ids = last === first! + 1 ? String(first) : `${first}-${last! - 1}`;
    return ["--engine", "emulated", "--gpus", ids, ...spread];
  });
}

function tlsFlags(role: Role, { ca, cert, key }: NonNullable<UpOptions["tls"]>): string[] {
  const own =
    role !== "ingress" || cert === undefined || key === undefined ? [] : ["--tls-cert", cert, "--tls-key", key];
  return ["--tls-ca", ca, ...own];
}
