/**
 * Replaces, drains or brings back one process on an operator's order, without a gap where that is possible.
 *
 *   - spare-first: The replacement starts beside the old process, and the old one is asked to leave only once the new
 *     one is ready (docs/architecture.md, T9). A replacement that fails to start leaves the old process as it was.
 *   - stop-first: For roles that allow only one process: an executor, since its accelerator holds one process's models;
 *     the gateway and the node, which hold ports; the profiler and the planner, since their entries in the store have
 *     one writer, and serving goes on without them.
 */
import type { ProcessRole } from "@tutti/protocol";
import { CommandError } from "@tutti/admin";
import { type Outcome, type Supervisor, endProcess } from "./supervisor.ts";

export type ReplacementOrder = "spare-first" | "stop-first";

const SPARE_FIRST: ReadonlySet<ProcessRole> = new Set<ProcessRole>(["ingress", "batcher", "ranker"]);
export const replacementOrder = (role: ProcessRole): ReplacementOrder =>
  SPARE_FIRST.has(role) ? "spare-first" : "stop-first";

/** A stopping actor exits after 9 s at the latest, whatever it still waits for. */
const GRACE_MS = 12_000;

export interface OrderOptions {
  /** Time limit for the replacement to become ready. */
  readonly readyMs: number;
  /** Time limit for the old process to end; then it is killed. */
  readonly graceMs?: number;
  readonly report: (text: string) => void;
}

/** @throws {CommandError} the replacement does not become ready */
export async function replaceProcess(
  supervisor: Supervisor,
  { name, order, ...options }: OrderOptions & { readonly name: string; readonly order: ReplacementOrder },
): Promise<void> {
  const state = supervisor.list().find((child) => child.spec.name === name);
  // Without a running process there is nothing to stop or to keep.
  if (state?.pid === undefined) return bringBack(supervisor, name, options);
  if (order === "spare-first") await replaceBySpare(supervisor, name, options);
  else {
    await drainProcess(supervisor, name, options);
    await bringBack(supervisor, name, options);
  }
}

async function replaceBySpare(supervisor: Supervisor, name: string, options: OrderOptions): Promise<void> {
  const launched = supervisor.launchBeside(name);
  options.report(`${name}: starts a replacement (pid ${launched.pid})`);
  const outcome = await supervisor.outcome(launched, options.readyMs);
  if (outcome === "late") await endProcess(launched, GRACE_MS);
  const { ready } = readyOf(outcome, name, options.readyMs, "; the one that ran goes on");
  const before = supervisor.promote(name, launched, ready);
  if (before === undefined) return options.report(`${name}: the replacement is ready; the old one has ended meanwhile`);
  options.report(`${name}: the replacement is ready; the old one (pid ${before.pid}) finishes what it has`);
  await end(before, name, options);
}

/** Drains a process: it finishes accepted work, ends, and stays down. */
export async function drainProcess(supervisor: Supervisor, name: string, options: OrderOptions): Promise<void> {
  const running = supervisor.park(name);
  if (running === undefined) return options.report(`${name}: has no process`);
  options.report(`${name}: pid ${running.pid} takes nothing more, and finishes what it has`);
  await end(running, name, options);
}

/** @throws {CommandError} the process does not become ready */
export async function bringBack(supervisor: Supervisor, name: string, options: OrderOptions): Promise<void> {
  const isReady = (): boolean => supervisor.list().some(({ spec, state }) => spec.name === name && state === "ready");
  const ran = isReady();
  const launched = supervisor.unpark(name);
  if (ran) return options.report(`${name}: was not drained, and runs on (pid ${launched.pid})`);
  options.report(`${name}: starts (pid ${launched.pid})`);
  if (!isReady()) readyOf(await supervisor.outcome(launched, options.readyMs), name, options.readyMs, "");
  options.report(`${name}: is ready`);
}

async function end(process: Parameters<typeof endProcess>[0], name: string, options: OrderOptions): Promise<void> {
  const startedAt = performance.now();
  const how = await endProcess(process, options.graceMs ?? GRACE_MS);
  const took = `${((performance.now() - startedAt) / 1000).toFixed(1)} s`;
  options.report(
    how === "ended"
      ? `${name}: the old one ended after ${took}`
      : `${name}: the old one did not end within ${took} and was killed`,
  );
}

function readyOf(
  outcome: Outcome,
  name: string,
  withinMs: number,
  addition: string,
): { ready: Readonly<Record<string, unknown>> } {
  if (outcome === "late") throw new CommandError(`${name} was not ready within ${withinMs / 1000} s${addition}`);
  if ("ended" in outcome) throw new CommandError(`${name} ended before it was ready (${outcome.ended})${addition}`);
  return outcome;
}
