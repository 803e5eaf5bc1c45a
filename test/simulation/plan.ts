import { Prng } from "@tutti/units";
import { FAST_TIMEOUTS, type Timeouts } from "../fixtures/actor-cluster/timeouts.ts";
import { type Grouping, apart, groupingOf } from "./groupings.ts";
import { type Placing, type Placings, hasTwoSubClusters, placingsOf } from "./placements.ts";
import { withParts } from "./parts.ts";
import { type MemoryPlan, withMemory } from "./memory.ts";
import { type Pipelined, withPipeline } from "./pipelines.ts";
import { type Planned, withPlanner } from "./planners.ts";
import { withFamily } from "./families.ts";
import { type Kinds, withKinds } from "./kinds.ts";
import { type Slow, withUnlikeExecutors } from "./unlike-executors.ts";
import { withProductionTimeouts } from "./production-timeouts.ts";
import { withRollout } from "./rollouts.ts";

/** Faults on one direction of one link while faults last. Shares of the messages; times in µs. */
export interface LinkFaults {
  readonly loss: number;
  readonly repeat: number;
  readonly late: number;
  readonly lateUsMax: number;
}

export type Action =
  /** SIGKILL; the supervisor starts the process again. */
  | { readonly kind: "kill"; readonly slot: string; readonly backAfterUs: number }
  /** SIGTERM; another process is started at once. */
  | { readonly kind: "drain"; readonly slot: string; readonly backAfterUs: number }
  /** SIGSTOP and SIGCONT. */
  | { readonly kind: "pause"; readonly slot: string; readonly forUs: number }
  /**
   * Messages between these slots and all others are lost; `hearing`: only those to them. The store is on the other
   * side.
   */
  | { readonly kind: "cut"; readonly slots: readonly string[]; readonly hearing: boolean; readonly forUs: number }
  /**
   * The slot's peers and the store are cut off from it and take it for dead. Actors that still listen to it don't hear
   * its successor. So different actors follow the old one and the new one at a time (T5).
   */
  | { readonly kind: "usurp"; readonly slot: string; readonly forUs: number }
  /**
   * A connection breaks, and messages on their way over it are lost. Only ingresses use their second one, for requests
   * and answers.
   */
  | {
      readonly kind: "disconnect";
      readonly slot: string;
      readonly which: "control" | "bulk" | "both";
      readonly forUs: number;
    }
  /** All links of the process with others of its host break, and messages on their way over them are lost. */
  | { readonly kind: "break-links"; readonly slot: string }
  /**
   * The server of these slots' control connections hangs, and the store is out of reach. Links and the data plane go
   * on, and publishers are heard, as are those that ask over HTTP.
   */
  | { readonly kind: "freeze"; readonly slots: readonly string[]; readonly forUs: number }
  | { readonly kind: "store-out"; readonly forUs: number }
  /** The store answers nobody. At the same moment an actor dies whose place can be taken only through the store. */
  | { readonly kind: "headless"; readonly slot: string; readonly forUs: number }
  /**
   * The NATS server is killed and started again. Every connection breaks at once, messages under way are lost, and the
   * store is away.
   */
  | { readonly kind: "server-restart"; readonly forUs: number }
  /** A new process joins, or one leaves in order and does not come back while faults last. */
  | { readonly kind: "join" | "leave"; readonly slot: string }
  /** The next run of that model never ends. */
  | { readonly kind: "hang"; readonly model: number }
  /** The planner writes a placement of models and accelerators. */
  | { readonly kind: "place"; readonly placing: Placing }
  /** The first model's second version gets this share of the requests from now on, or becomes its shadow. */
  | { readonly kind: "share"; readonly percent: number; readonly isShadow: boolean }
  /** An executor is replaced by two halves of its accelerators, or those by a whole one. */
  | { readonly kind: "divide" }
  /** Malformed messages from a stranger, to all actors. */
  | { readonly kind: "junk" }
  /** Requests of one model at once. */
  | { readonly kind: "burst"; readonly model: number; readonly count: number };

export interface ModelPlan {
  readonly name: string;
  readonly alphaUs: number;
  readonly betaUs: number;
  readonly sloMs: number;
  readonly batchSizeMax: number;
  readonly ratePerSecond: number;
}

export interface EngineFaults {
  /** Shares of the batches: single rows fail, the batch fails, the engine breaks and its process with it. */
  readonly rows: number;
  readonly batch: number;
  readonly broken: number;
}

/**
 * All decisions of one seed. `calm`: nothing but restarts while the rest can carry the load, so that T9 holds for every
 * request. `struck`: nothing but SIGKILLs, each long after the one before, so that it is known by when a successor must
 * have taken over.
 */
export interface Plan {
  readonly seed: number;
  readonly calm: boolean;
  readonly struck: boolean;
  readonly ingresses: number;
  readonly batchers: number;
  /** Rankers of all sub-clusters, in turn. */
  readonly rankers: number;
  readonly executors: number;
  /** Undefined: one sub-cluster, and no placement is ever written. */
  readonly placings?: Placings;
  /** Undefined: no planner runs. */
  readonly planned?: Planned;
  /** Undefined: accelerators hold whatever there is. */
  readonly memory?: MemoryPlan;
  /** Whether an executor is replaced by two halves, and back. */
  readonly hasParts?: boolean;
  /** Undefined: there is no pipeline. */
  readonly pipelined?: Pipelined;
  /** Whether the first two models are variants of one family. */
  readonly hasFamily?: boolean;
  /** Undefined: all requests are alike. */
  readonly kinds?: Kinds;
  /** Undefined: all accelerators are of one type. */
  readonly slow?: Slow;
  /** Slots that an action starts. */
  readonly joiners: readonly string[];
  /** Actors that share a process are struck together. */
  readonly grouping: Grouping;
  readonly gpusPerExecutor: number;
  readonly models: readonly ModelPlan[];
  readonly policy: "adaptive" | "deferred" | "eager";
  readonly gather: "target" | "head";
  readonly hopUs: number;
  readonly hopJitterUs: number;
  readonly skewUsMax: number;
  readonly timeouts: Timeouts;
  readonly link: (from: string, to: string) => LinkFaults;
  /** Whether no message overtakes another, or comes twice. */
  readonly isOrderly: boolean;
  readonly engine: EngineFaults;
  /** Largest factor between a run and its profile. */
  readonly slowdownMax: number;
  readonly requestsMax: number;
  readonly durationUs: number;
  readonly actions: readonly { readonly atUs: number; readonly action: Action }[];
}

/**
 * Largest offset of a host's clock from true time. Two hosts differ by at most twice that, a fifth of the least d_ctrl
 * from which validities are calculated.
 */
const SKEW_US_MAX = 100;
const CLEAN: LinkFaults = { loss: 0, repeat: 0, late: 0, lateUsMax: 0 };

const undisturbed = (): LinkFaults => CLEAN;

/** Swarm testing: each seed has its own few kinds of fault, so that none hides another. */
export function planOf(seed: number): Plan {
  const timed = withProductionTimeouts(withRollout(withGrouping(withMemory(withPlanner(ungrouped(seed))))));
  return withPipeline(withParts(withUnlikeExecutors(withKinds(withFamily(timed)))));
}

/** A plan before its actors are dealt to processes. */
export type Ungrouped = Omit<Plan, "grouping" | "isOrderly">;

function withGrouping(plan: Ungrouped): Plan {
  const { seed, joiners, durationUs, calm, struck, placings, planned } = plan;
  const isOrderly = plan.hopJitterUs === 0 && plan.link === undisturbed;
  const slots = allSlots(plan);
  const subClusters = (placings ?? planned)?.subClusters.length ?? 1;
  const grouping = groupingOf(seed, { slots, joiners, durationUs, subClusters, quiet: calm || struck });
  const breaks = grouping.breaks.map(({ atUs, slot }) => ({ atUs, action: { kind: "break-links", slot } as const }));
  return { ...plan, grouping, isOrderly, actions: [...plan.actions, ...breaks] };
}

function ungrouped(seed: number): Ungrouped {
  const prng = new Prng(seed * 7_919 + 17);
  /** A generator of its own, so that its draws do not change the rest of the seed's plan. */
  const extra = new Prng(seed * 6_007 + 3);
  const quiet = prng.nextFloat() < 0.12;
  const struck = quiet && extra.nextFloat() < 0.5;
  const calm = quiet && !struck;
  const chance = (share: number): boolean => !quiet && prng.nextFloat() < share;
  const between = (low: number, high: number): number => low + prng.nextFloat() * (high - low);
  const count = (low: number, high: number): number => low + prng.nextInt(high - low + 1);
  const least = quiet ? 2 : 1;
  const size = {
    ingresses: count(least, 2),
    batchers: count(least, 2),
    rankers: count(2, 3),
    executors: count(least, 3),
  };
  const isPlaced = !quiet && hasTwoSubClusters(seed);
  if (isPlaced) size.rankers *= 2;
  const models = Array.from({ length: count(1, 3) }, (_, i) => modelPlan(prng, i, quiet));
  const durationUs = Math.round(struck ? STRUCK_US : calm ? between(...CALM_US) : between(200_000, 350_000));
  const plan = {
    ...size,
    seed,
    calm,
    struck,
    gpusPerExecutor: count(quiet ? 2 : 1, 3),
    models,
    policy: policyOf(prng.nextFloat()),
    gather: prng.nextFloat() < 0.7 ? ("target" as const) : ("head" as const),
    hopUs: Math.round(between(20, 120)),
    hopJitterUs: chance(0.5) ? Math.round(between(10, 200)) : 0,
    skewUsMax: chance(0.6) ? SKEW_US_MAX : 0,
    timeouts: FAST_TIMEOUTS,
    link: linkFaults(prng.fork(), chance(0.7) ? between(0.02, 0.3) : 0),
    engine: {
      rows: chance(0.2) ? 0.1 : 0,
      batch: chance(0.2) ? 0.1 : 0,
      broken: chance(0.1) ? 0.02 : 0,
    },
    slowdownMax: chance(0.3) ? between(1.2, 3) : 1,
    requestsMax: chance(0.2) ? count(24, 60) : 4_096,
    durationUs,
  };
  if (calm) return { ...plan, joiners: [], actions: calmActions(prng, size, durationUs) };
  if (struck) return { ...plan, joiners: [], actions: strikes(extra, size) };
  const more = extraActions(extra, plan);
  const { joiners } = more;
  const actions = [...actionsOf(prng, plan), ...more.actions];
  if (!isPlaced) return { ...plan, joiners, actions };
  const placings = placingsOf(seed, { ...plan, joiners });
  const places = placings.changes.map(({ atUs, placing }) => ({ atUs, action: { kind: "place", placing } as const }));
  return { ...plan, joiners, placings, actions: [...actions, ...places] };
}

/**
 * Time for an executor to be drained and to come back before the next restart. Draining takes a quarter of a second.
 */
const CALM_US = [1_100_000, 1_200_000] as const;
/** Time for two strikes. */
const STRUCK_US = 500_000;

/** Half of the seeds have the product's default. */
const policyOf = (draw: number): Plan["policy"] => (draw < 0.5 ? "adaptive" : draw < 0.8 ? "deferred" : "eager");

function modelPlan(prng: Prng, index: number, quiet: boolean): ModelPlan {
  const alphaUs = Math.round(200 + 800 * prng.nextFloat());
  const betaUs = Math.round(300 + 3_000 * prng.nextFloat() ** 2);
  const leastMs = 12 + (4 * (alphaUs + betaUs)) / 1_000;
  const sloMs = Math.round(quiet ? 150 : leastMs + 100 * prng.nextFloat() ** 2);
  const batchSizeMax = 1 + prng.nextInt(16);
  const ratePerSecond = quiet ? 100 : 50 + 400 * prng.nextFloat();
  return { name: `model-${index}`, alphaUs, betaUs, sloMs, batchSizeMax, ratePerSecond };
}

/** Each direction of each link is clean, or bad in its own way. */
function linkFaults(prng: Prng, worst: number): Plan["link"] {
  if (worst === 0) return undisturbed;
  const [loses, repeats, delays] = [prng.nextFloat() < 0.7, prng.nextFloat() < 0.7, prng.nextFloat() < 0.7];
  const known = new Map<string, LinkFaults>();
  return (from, to) => {
    const name = `${from}>${to}`;
    let faults = known.get(name);
    if (faults === undefined) {
      const share = (isOn: boolean): number => (isOn && prng.nextFloat() < 0.6 ? worst * prng.nextFloat() : 0);
      faults = {
        loss: share(loses),
        repeat: share(repeats),
        late: share(delays),
        lateUsMax: 500 + prng.nextInt(8_000),
      };
      known.set(name, faults);
    }
    return faults;
  };
}

type Sizes = Pick<Plan, "ingresses" | "batchers" | "rankers" | "executors"> & Partial<Pick<Plan, "planned">>;

const slotsOf = (sizes: Sizes): Record<"ingress" | "batcher" | "ranker" | "executor", string[]> => {
  const names = (role: string, count: number): string[] => Array.from({ length: count }, (_, i) => `${role}-${i}`);
  return {
    ingress: names("ingress", sizes.ingresses),
    batcher: names("batcher", sizes.batchers),
    ranker: names("ranker", sizes.rankers),
    executor: names("executor", sizes.executors),
  };
};

export const allSlots = (sizes: Sizes): string[] => [
  ...Object.values(slotsOf(sizes)).flat(),
  "profiler-0",
  ...(sizes.planned?.slots ?? []),
];

/** A grouping for plans that are made by hand: each actor in a process of its own. */
export const everyoneApart = (sizes: Sizes): Grouping => ({
  processes: apart(allSlots(sizes)),
  links: { late: 0, lateUsMax: 0, full: 0 },
  breaks: [],
});

/** Restarts one after another, each long after the one before has come back. */
function calmActions(prng: Prng, sizes: Sizes, durationUs: number): Plan["actions"] {
  const all = allSlots(sizes);
  return [0.1, 0.6].map((share) => ({
    atUs: Math.round(durationUs * (share + 0.2 * prng.nextFloat())),
    action: { kind: "drain", slot: all[prng.nextInt(all.length)]!, backAfterUs: 1_000 },
  }));
}

function actionsOf(prng: Prng, plan: Sizes & Pick<Plan, "models" | "durationUs">): Plan["actions"] {
  const all = allSlots(plan);
  const any = (): string => all[prng.nextInt(all.length)]!;
  /** A leader that stops and wakes is the likeliest sender of stale messages. */
  const likelyRanker = (): string => (prng.nextFloat() < 0.5 ? `ranker-${prng.nextInt(plan.rankers)}` : any());
  const us = (low: number, high: number): number => Math.round(low + prng.nextFloat() * (high - low));
  const makers: (() => Action)[] = [
    () => ({ kind: "kill", slot: any(), backAfterUs: us(5_000, 120_000) }),
    () => ({ kind: "drain", slot: any(), backAfterUs: us(1_000, 60_000) }),
    () => ({ kind: "pause", slot: likelyRanker(), forUs: us(2_000, 150_000) }),
    () => ({
      kind: "cut",
      slots: all.filter(() => prng.nextFloat() < 0.35),
      hearing: false,
      forUs: us(3_000, 150_000),
    }),
    () => ({ kind: "cut", slots: [likelyRanker()], hearing: prng.nextFloat() < 0.5, forUs: us(3_000, 150_000) }),
    () => ({ kind: "usurp", slot: prng.nextFloat() < 0.5 ? "ranker-0" : "batcher-0", forUs: us(110_000, 200_000) }),
    () => disconnection(any(), us(1_000, 60_000)),
    () => ({ kind: "store-out", forUs: us(5_000, 120_000) }),
    () => ({ kind: "junk" }),
    () => ({ kind: "burst", model: prng.nextInt(plan.models.length), count: 5 + prng.nextInt(60) }),
  ];
  const chosen = makers.filter(() => prng.nextFloat() < 0.4);
  if (chosen.length === 0) return [];
  return Array.from({ length: prng.nextInt(9) }, () => ({
    atUs: prng.nextInt(plan.durationUs),
    action: chosen[prng.nextInt(chosen.length)]!(),
  }));
}

const disconnection = (slot: string, forUs: number): Action => {
  const which = slot.startsWith("ingress") ? (["control", "bulk", "both"] as const)[forUs % 3]! : "control";
  return { kind: "disconnect", slot, which, forUs };
};

/** Two deaths, each with a restart after a while; the second is of another role. */
function strikes(prng: Prng, sizes: Sizes): Plan["actions"] {
  const slots = Object.values(slotsOf(sizes));
  const first = prng.nextInt(slots.length);
  const second = (first + 1 + prng.nextInt(slots.length - 1)) % slots.length;
  return [first, second].map((role, i) => ({
    atUs: 50_000 + i * (STRUCK_US / 2) + prng.nextInt(20_000),
    action: { kind: "kill", slot: slots[role]![prng.nextInt(slots[role]!.length)]!, backAfterUs: 60_000 },
  }));
}

/** Additional joiners and actions that half of the seeds have. */
function extraActions(
  prng: Prng,
  plan: Sizes & Pick<Plan, "models" | "durationUs">,
): Pick<Plan, "joiners" | "actions"> {
  if (prng.nextFloat() < 0.5) return { joiners: [], actions: [] };
  const slots = slotsOf(plan);
  const all = Object.values(slots).flat();
  const pick = <Item>(items: readonly Item[]): Item => items[prng.nextInt(items.length)]!;
  const us = (low: number, high: number): number => Math.round(low + prng.nextFloat() * (high - low));
  const actions: { atUs: number; action: Action }[] = [];
  const add = (action: Action): void => void actions.push({ atUs: prng.nextInt(plan.durationUs), action });
  const joiners: string[] = [];
  if (prng.nextFloat() < 0.3) add({ kind: "server-restart", forUs: us(2_000, 80_000) });
  if (prng.nextFloat() < 0.3)
    add({ kind: "headless", slot: pick([...slots.ranker, ...slots.batcher]), forUs: us(5_000, 120_000) });
  if (prng.nextFloat() < 0.3) add({ kind: "pause", slot: pick(all), forUs: us(120_000, 300_000) });
  if (prng.nextFloat() < 0.3) add({ kind: "hang", model: prng.nextInt(plan.models.length) });
  if (prng.nextFloat() < 0.3) add({ kind: "leave", slot: pick(all) });
  for (const role of ["executor", "batcher", "ingress"] as const) {
    if (prng.nextFloat() >= 0.25) continue;
    const slot = `${role}-${slots[role].length}`;
    joiners.push(slot);
    add({ kind: "join", slot });
    if (prng.nextFloat() < 0.5) add({ kind: "leave", slot });
  }
  return { joiners, actions };
}
