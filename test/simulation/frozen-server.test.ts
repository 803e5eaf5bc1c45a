/**
 * One server of a NATS cluster hangs, or all do. A leader whose server is silent goes on with what its links reach
 * (RANKER-5), and beyond them another may lead: no accelerator has two leaders (T5), and all that was held up comes at
 * once when the server answers again.
 */
import { GpuGranted } from "@tutti/protocol";
import { Prng } from "@tutti/units";
import { expect, test } from "vitest";
import type { Grouping } from "./groupings.ts";
import { type Action, type Plan, planOf } from "./plan.ts";
import { SEEDS_MS, runSeeds } from "./run-seeds.ts";
import { runTrial } from "./trial.ts";

/** Two hosts that have all that they need, and one leader. */
const SIZES = { ingresses: 2, batchers: 2, rankers: 2, executors: 2 };
const sideOf = (i: number): Grouping["processes"] => [
  { name: `node-${i}`, host: `host-${i}`, slots: [`ingress-${i}`, `batcher-${i}`, `ranker-${i}`] },
  { name: `executor-${i}`, host: `host-${i}`, slots: [`executor-${i}`] },
];
const PROFILER = { name: "profiler-0", host: "host-1", slots: ["profiler-0"] };
const slotsOf = (i: number): string[] => sideOf(i).flatMap(({ slots }) => slots);
/** Faults beside; others break connections, which a frozen one outlives here. */
const KEPT: readonly Action["kind"][] = ["kill", "pause", "burst", "junk", "break-links"];
const DURATION_US = 1_000_000;

function frozenPlan(seed: number): Plan {
  const { placings: _, planned: __, slow: ___, ...plan } = planOf(seed);
  const prng = new Prng(seed * 9_973 + 41);
  const freezes = Array.from({ length: 1 + prng.nextInt(2) }, () => {
    const side = prng.nextInt(3); // the third is both
    const slots = side === 2 ? [...slotsOf(0), ...slotsOf(1)] : slotsOf(side);
    const action: Action = { kind: "freeze", slots, forUs: 10_000 + prng.nextInt(900_000) };
    return { atUs: prng.nextInt(300_000), action };
  });
  const isKept = ({ atUs, action }: Plan["actions"][number]): boolean =>
    atUs < DURATION_US &&
    KEPT.includes(action.kind) &&
    (!("slot" in action) || [...slotsOf(0), ...slotsOf(1)].includes(action.slot));
  return {
    ...{ ...plan, ...SIZES, calm: false, struck: false, hasParts: false, joiners: [], durationUs: DURATION_US },
    grouping: { ...plan.grouping, processes: [...sideOf(0), ...sideOf(1), PROFILER], breaks: [] },
    actions: [...plan.actions.filter(isKept), ...freezes],
  };
}

test(
  "servers that hang break no invariant (T1 to T9), and service comes back once they answer: 24 seeds",
  { timeout: SEEDS_MS },
  () => {
    runSeeds(1, 24, frozenPlan);
  },
);

test("a leader whose server hangs grants its own host while another leads elsewhere, and no accelerator is theirs both", () => {
  const { models, ...plan } = frozenPlan(2);
  const freeze = { atUs: 50_000, action: { kind: "freeze", slots: slotsOf(0), forUs: 900_000 } as const };
  const quiet = models.map((model) => ({ ...model, ratePerSecond: 20 }));
  const { violation, story } = runTrial(2, "told", { ...plan, models: quiet, actions: [freeze] });
  expect(violation).toBeUndefined();
  const another = story.findIndex((line) => /ranker-1#.*leads/.test(line));
  const thawed = story.findIndex((line) => line.includes("the server of node-0 answers again"));
  const both = story.slice(another, thawed).filter((line) => line.includes(`sends ${GpuGranted.name}`));
  for (const ranker of ["ranker-0#", "ranker-1#"])
    expect(both.filter((line) => line.includes(ranker)).length, ranker).toBeGreaterThan(3);
});
