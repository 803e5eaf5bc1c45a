/**
 * Rolling restart or drain: one process after the other. The next process waits until the cluster is as whole as
 * before: as many actors of each role, a leader, every accelerator, every ModelThread (docs/architecture.md, T9). It
 * stops at the first failure, because its cause would break the next process, too.
 */
import type { ProcessOrder } from "@tutti/protocol";
import { CommandError } from "../failure.ts";
import type { Target } from "./targets.ts";

export interface RollingPorts {
  /** @throws {CommandError} */
  order(target: Target, order: ProcessOrder, onText: (text: string) => void): Promise<void>;
  /** Names the first thing that the cluster had before and lacks now; undefined: nothing. */
  lack(): string | undefined;
  /** @throws {CommandError} another operator has taken the lock */
  assertAlone(): void;
  now(): number;
  wait(ms: number): Promise<void>;
}

export interface RollingOptions {
  readonly order: ProcessOrder;
  /** Time limit for the cluster to be whole again. */
  readonly settleMs: number;
  /** Checked before each process: whether the operator has stopped the work. */
  readonly isStopped: () => boolean;
  readonly onStep: (step: Step) => void;
}

export interface Step {
  readonly target: Target;
  /** From 1 to `count`. */
  readonly number: number;
  readonly count: number;
  readonly kind: "begins" | "goes-on" | "done";
  readonly text: string;
}

export interface RollingEnd {
  readonly done: readonly Target[];
  readonly left: readonly Target[];
  readonly failure: string | undefined;
}

const LOOK_EVERY_MS = 50;

export async function roll(
  targets: readonly Target[],
  ports: RollingPorts,
  options: RollingOptions,
): Promise<RollingEnd> {
  const done: Target[] = [];
  const end = (failure: string | undefined): RollingEnd => ({ done, left: targets.slice(done.length), failure });
  for (const [index, target] of targets.entries()) {
    if (options.isStopped()) return end("stopped by the operator");
    const say = (kind: Step["kind"], text: string): void =>
      options.onStep({ target, number: index + 1, count: targets.length, kind, text });
    const startedAt = ports.now();
    say(
      "begins",
      `${options.order} ${target.host}/${target.name} (${target.role}${target.actor === "" ? "" : ` ${target.actor}`})`,
    );
    try {
      ports.assertAlone();
      await ports.order(target, options.order, (text) => say("goes-on", text));
      if (options.order !== "drain") await settle(ports, options, (text) => say("goes-on", text));
    } catch (error) {
      if (error instanceof CommandError) return end(`${target.host}/${target.name}: ${error.message}`);
      throw error;
    }
    done.push(target);
    say("done", `${((ports.now() - startedAt) / 1_000).toFixed(1)} s`);
  }
  return end(undefined);
}

async function settle(ports: RollingPorts, { settleMs }: RollingOptions, say: (text: string) => void): Promise<void> {
  const until = ports.now() + settleMs;
  let told: string | undefined;
  for (let lack = ports.lack(); lack !== undefined; lack = ports.lack()) {
    if (ports.now() >= until)
      throw new CommandError(`is ready, but ${lack}, ${settleMs / 1_000} s later; nothing more is restarted`);
    if (lack !== told) say(`waits: ${(told = lack)}`);
    await ports.wait(LOOK_EVERY_MS);
  }
}
