import { Prng } from "@tutti/units";

/** What goes wrong on one direction of one link while faults last. Shares of the messages; times in µs. */
export interface LinkFaults {
  readonly loss: number;
  readonly repeat: number;
  readonly late: number;
  readonly lateUsMax: number;
}

export type Action =
  /** As SIGKILL; started again by its supervisor. */
  | { readonly kind: "kill"; readonly slot: string; readonly backAfterUs: number }
  /** As SIGTERM; another one is started at once. */
  | { readonly kind: "drain"; readonly slot: string; readonly backAfterUs: number }
  /** As SIGSTOP and SIGCONT. */
  | { readonly kind: "pause"; readonly slot: string; readonly forUs: number }
  /** Messages between these and all others are lost; `hearing`: only those to them. The store is on the other side. */
  | { readonly kind: "cut"; readonly slots: readonly string[]; readonly hearing: boolean; readonly forUs: number }
  /**
   * Its peers and the store are cut off from it and take it for dead, and whoever takes its place is not heard by those who still listen to it: so the
   * old one and the new one are obeyed by different actors at a time (T5).
   */
  | { readonly kind: "usurp"; readonly slot: string; readonly forUs: number }
  /** A connection breaks, and what is on its way over it is lost. Only ingresses use their second one, for requests and answers. */
  | {
      readonly kind: "disconnect";
      readonly slot: string;
      readonly which: "control" | "bulk" | "both";
      readonly forUs: number;
    }
  | { readonly kind: "store-out"; readonly forUs: number }
  /** Malformed messages from a stranger, to everybody. */
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

/** All that one seed decides. `calm`: nothing but restarts while what remains can carry the load, so that T9 holds for every request. */
export interface Plan {
  readonly seed: number;
  readonly calm: boolean;
  readonly ingresses: number;
  readonly batchers: number;
  readonly rankers: number;
  readonly executors: number;
  readonly gpusPerExecutor: number;
  readonly models: readonly ModelPlan[];
  readonly policy: "adaptive" | "deferred" | "eager";
  readonly gather: "target" | "head";
  readonly hopUs: number;
  readonly hopJitterUs: number;
  readonly skewUsMax: number;
  readonly link: (from: string, to: string) => LinkFaults;
  readonly engine: EngineFaults;
  /** A run takes so many times what its profile says, at most. */
  readonly slowdownMax: number;
  readonly requestsMax: number;
  readonly durationUs: number;
  readonly actions: readonly { readonly atUs: number; readonly action: Action }[];
}

/** Hosts are this far from true time at most: two of them differ by twice that, a fifth of the least d_ctrl of which validities are reckoned. */
const SKEW_US_MAX = 100;
const CLEAN: LinkFaults = { loss: 0, repeat: 0, late: 0, lateUsMax: 0 };

/** Swarm testing: each seed has its own few kinds of fault, so that none hides another. */
export function planOf(seed: number): Plan {
  const prng = new Prng(seed * 7_919 + 17);
  const calm = prng.nextFloat() < 0.12;
  const chance = (share: number): boolean => !calm && prng.nextFloat() < share;
  const between = (low: number, high: number): number => low + prng.nextFloat() * (high - low);
  const count = (low: number, high: number): number => low + prng.nextInt(high - low + 1);
  const least = calm ? 2 : 1;
  const size = {
    ingresses: count(least, 2),
    batchers: count(least, 2),
    rankers: count(2, 3),
    executors: count(least, 3),
  };
  const models = Array.from({ length: count(1, 3) }, (_, i) => modelPlan(prng, i, calm));
  const durationUs = Math.round(between(200_000, 350_000));
  const plan = {
    ...size,
    seed,
    calm,
    gpusPerExecutor: count(calm ? 2 : 1, 3),
    models,
    policy: policyOf(prng.nextFloat()),
    gather: prng.nextFloat() < 0.7 ? ("target" as const) : ("head" as const),
    hopUs: Math.round(between(20, 120)),
    hopJitterUs: chance(0.5) ? Math.round(between(10, 200)) : 0,
    skewUsMax: chance(0.6) ? SKEW_US_MAX : 0,
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
  return { ...plan, actions: calm ? calmActions(prng, size, durationUs) : actionsOf(prng, plan) };
}

/** Half of the seeds have the product's default. */
const policyOf = (draw: number): Plan["policy"] => (draw < 0.5 ? "adaptive" : draw < 0.8 ? "deferred" : "eager");

function modelPlan(prng: Prng, index: number, calm: boolean): ModelPlan {
  const alphaUs = Math.round(200 + 800 * prng.nextFloat());
  const betaUs = Math.round(300 + 3_000 * prng.nextFloat() ** 2);
  const leastMs = 12 + (4 * (alphaUs + betaUs)) / 1_000;
  const sloMs = Math.round(calm ? 150 : leastMs + 100 * prng.nextFloat() ** 2);
  const batchSizeMax = 1 + prng.nextInt(16);
  const ratePerSecond = calm ? 100 : 50 + 400 * prng.nextFloat();
  return { name: `model-${index}`, alphaUs, betaUs, sloMs, batchSizeMax, ratePerSecond };
}

/** Each direction of each link is clean, or bad in its own way. */
function linkFaults(prng: Prng, worst: number): Plan["link"] {
  if (worst === 0) return () => CLEAN;
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

type Sizes = Pick<Plan, "ingresses" | "batchers" | "rankers" | "executors">;

const slotsOf = (sizes: Sizes): Record<"ingress" | "batcher" | "ranker" | "executor", string[]> => {
  const names = (role: string, count: number): string[] => Array.from({ length: count }, (_, i) => `${role}-${i}`);
  return {
    ingress: names("ingress", sizes.ingresses),
    batcher: names("batcher", sizes.batchers),
    ranker: names("ranker", sizes.rankers),
    executor: names("executor", sizes.executors),
  };
};

/** One restart after another, each long after the one before it has come back. */
function calmActions(prng: Prng, sizes: Sizes, durationUs: number): Plan["actions"] {
  const all = Object.values(slotsOf(sizes)).flat();
  return [0.1, 0.6].map((share) => ({
    atUs: Math.round(durationUs * (share + 0.2 * prng.nextFloat())),
    action: { kind: "drain", slot: all[prng.nextInt(all.length)]!, backAfterUs: 1_000 },
  }));
}

function actionsOf(prng: Prng, plan: Sizes & Pick<Plan, "models" | "durationUs">): Plan["actions"] {
  const slots = slotsOf(plan);
  const all = [...Object.values(slots).flat(), "profiler-0"];
  const any = (): string => all[prng.nextInt(all.length)]!;
  /** A leader that stops and wakes is the one that sends what is stale. */
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
