/** Whom a seed strikes, how, and when: pure, so that a seed means the same strikes on every machine. */
import type { Role } from "@tutti/protocol";
import { Prng } from "@tutti/units";
import { SIGNALS, type StrikeSignal } from "./record.ts";

export interface PlannedStrike {
  /** `leader`: the ranker that leads at that moment. */
  readonly target: string;
  readonly signal: StrikeSignal;
  /** SIGSTOP: until SIGCONT. */
  readonly forMs: number;
  /** From the moment when the one before it is back, or wakes. */
  readonly afterMs: number;
}

/** Those on a request's path, in every round; of those beside it, one in every round but the first. */
const PATH: readonly Role[] = ["ingress", "batcher", "ranker", "executor"];
const BESIDE: readonly Role[] = ["profiler", "planner", "gateway"];
const COUNT: Readonly<Partial<Record<Role, number>>> = { ingress: 2, batcher: 2, ranker: 3, executor: 4 };

/** Some wake before anybody has missed them, some long after they were replaced. */
const FREEZE_MS = { min: 40, max: 2_000 };
const PAUSE_MS = { min: 600, mean: 500 };

/** Strikes without end: rounds of all roles in an order of their own, each role struck by each signal in turn. */
export function* strikesOf(seed: number): Generator<PlannedStrike> {
  const prng = new Prng(seed);
  const signals = new Map<Role, StrikeSignal[]>();
  let beside: Role[] = [];
  for (let round = 0; ; round++) {
    if (beside.length === 0) beside = shuffled(BESIDE, prng);
    const roles = shuffled(round === 0 ? PATH : [...PATH, beside.pop()!], prng);
    for (const role of roles) {
      let left = signals.get(role) ?? [];
      if (left.length === 0) signals.set(role, (left = shuffled(SIGNALS, prng)));
      const signal = left.pop()!;
      const ratio = FREEZE_MS.max / FREEZE_MS.min;
      yield {
        target: targetOf(role, prng),
        signal,
        forMs: Math.round(FREEZE_MS.min * ratio ** prng.nextFloat()),
        afterMs: Math.round(PAUSE_MS.min + prng.nextExponential(1 / PAUSE_MS.mean)),
      };
    }
  }
}

/** Killing a spare tells little: two of three strikes at rankers meet the leader. */
function targetOf(role: Role, prng: Prng): string {
  const count = COUNT[role] ?? 1;
  const index = prng.nextInt(count);
  if (role === "ranker" && prng.nextFloat() < 0.5) return "leader";
  return count === 1 ? role : `${role}-${index}`;
}

function shuffled<Item>(items: readonly Item[], prng: Prng): Item[] {
  const left = [...items];
  return Array.from(items, () => left.splice(prng.nextInt(left.length), 1)[0]!);
}
