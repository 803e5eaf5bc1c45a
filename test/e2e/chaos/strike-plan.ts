/**
 * The strikes of a seed: targets, signals and times. It is pure, so that a seed means the same strikes on every
 * machine.
 */
import { Prng } from "@tutti/units";
import { type Layout, SIGNALS, type StrikeSignal, type StruckRole } from "./record.ts";

export interface PlannedStrike {
  /** `leader`: the process of the ranker that leads at that moment. */
  readonly target: string;
  readonly signal: StrikeSignal;
  /** Milliseconds from SIGSTOP to SIGCONT. */
  readonly forMs: number;
  /** Pause after the one before it is back, or wakes. */
  readonly afterMs: number;
}

interface Struck {
  /** Roles on a request's path, struck in every round; `beside`: of the others, one in every round but the first. */
  readonly path: readonly StruckRole[];
  readonly beside: readonly StruckRole[];
  readonly count: Readonly<Partial<Record<StruckRole, number>>>;
}
const SPREAD: Struck = {
  path: ["ingress", "batcher", "ranker", "executor"],
  beside: ["profiler", "planner", "gateway", "jobs"],
  count: { ingress: 2, batcher: 2, ranker: 3, executor: 4 },
};
function struckIn({ kind, nodes, natsServers }: Layout): Struck {
  const nodesOnly: Struck = { path: ["node", "executor"], beside: [], count: { node: nodes, executor: 4 } };
  const struck = kind === "spread" ? SPREAD : nodesOnly;
  if (natsServers === undefined) return struck;
  return { ...struck, path: [...struck.path, "nats"], count: { ...struck.count, nats: natsServers } };
}

/** Lengths of a freeze: some processes wake before anybody has missed them, some long after they were replaced. */
const FREEZE_MS = { min: 40, max: 2_000 };
const PAUSE_MS = { min: 600, mean: 500 };

/** An endless sequence of strikes: rounds of all roles in random order, each role struck by each signal in turn. */
export function* strikesOf(seed: number, layout: Layout): Generator<PlannedStrike> {
  const prng = new Prng(seed);
  const { path, beside: others, count } = struckIn(layout);
  const signals = new Map<StruckRole, StrikeSignal[]>();
  let beside: StruckRole[] = [];
  for (let round = 0; ; round++) {
    if (beside.length === 0) beside = shuffled(others, prng);
    const more = round === 0 ? [] : [beside.pop()].filter((role) => role !== undefined);
    for (const role of shuffled([...path, ...more], prng)) {
      let left = signals.get(role) ?? [];
      if (left.length === 0) signals.set(role, (left = shuffled(SIGNALS, prng)));
      const signal = left.pop()!;
      const ratio = FREEZE_MS.max / FREEZE_MS.min;
      yield {
        target: targetOf(role, count[role] ?? 1, prng),
        signal,
        forMs: Math.round(FREEZE_MS.min * ratio ** prng.nextFloat()),
        afterMs: Math.round(PAUSE_MS.min + prng.nextExponential(1 / PAUSE_MS.mean)),
      };
    }
  }
}

/** Chooses the process. Killing a standby shows little: two of three strikes at rankers meet the leader. */
function targetOf(role: StruckRole, count: number, prng: Prng): string {
  const index = prng.nextInt(count);
  const hasLeader = role === "ranker" || role === "node";
  if (hasLeader && count > 1 && prng.nextFloat() < 0.5) return "leader";
  return count === 1 ? role : `${role}-${index}`;
}

function shuffled<Item>(items: readonly Item[], prng: Prng): Item[] {
  const left = [...items];
  return Array.from(items, () => left.splice(prng.nextInt(left.length), 1)[0]!);
}
