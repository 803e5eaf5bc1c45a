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
  readonly credentials: Readonly<Partial<Record<Role, string>>>;
}

/** The processes of one machine: an ingress, a batcher, a leading ranker and its spare, the executors, and those that watch. */
export function planCluster(options: UpOptions, around: Surroundings): PlannedRole[] {
  const planned = (name: string, role: Role, ...argv: string[]): PlannedRole => {
    const credentials = around.credentials[role];
    const common = ["--nats", around.url, ...(credentials === undefined ? [] : ["--creds", credentials])];
    const telemetry = [
      "--log-level",
      options.logLevel,
      ...(options.otlp === undefined ? [] : ["--otlp", options.otlp]),
    ];
    return { name, role, argv: [...common, ...telemetry, ...argv] };
  };
  const patience = options.patience === undefined ? [] : ["--patience", options.patience];
  const replyScope = options.apps.length > 0 ? "app" : "any";
  const dataPlane = ["--data-plane", options.dataPlane];
  return [
    planned("ranker-0", "ranker"),
    planned("ranker-1", "ranker"),
    planned("batcher", "batcher", "--policy", options.policy, "--gather", options.gather, ...patience),
    ...planExecutors(options, around.jitter).map((argv, index) =>
      planned(`executor-${index}`, "executor", ...dataPlane, ...argv),
    ),
    planned("ingress", "ingress", "--reply-scope", replyScope, "--rehearsal", `${options.rehearsal}us`, ...dataPlane),
    planned("profiler", "profiler"),
    planned("planner", "planner"),
    planned("gateway", "gateway", "--http-port", options.httpPort),
  ];
}

/** A real accelerator has a process of its own, since a native fault takes its process down; emulated ones share one. */
function planExecutors(options: UpOptions, jitter: Surroundings["jitter"]): string[][] {
  if (options.emulate === undefined) {
    return Array.from({ length: options.executors }, (_, gpu) => [
      "--gpus",
      String(gpu),
      "--provider",
      options.provider,
    ]);
  }
  const last = options.emulatedGpus - 1;
  const spread = jitter === undefined ? [] : ["--jitter", `${jitter.spread}:${jitter.seed}`];
  return [["--engine", "emulated", "--gpus", last === 0 ? "0" : `0-${last}`, ...spread]];
}
