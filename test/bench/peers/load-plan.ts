/** The load generator's orders and its report. */

export interface LoadKind {
  readonly name: string;
  /** The same request with different rows: head and body over HTTP, headers and payload over NATS, in base64. */
  readonly requests: readonly string[];
  /** The first numbers of the answer to each of `requests`; one that differs is wrong. */
  readonly expected: readonly (readonly number[])[];
  readonly form: AnswerForm;
  /** NATS subject. */
  readonly subject?: string;
  /** NATS: bytes of headers before the payload. */
  readonly headerBytes?: number;
}

/**
 * Where the numbers of an answer are. They are in JSON, behind JSON (OIP's binary tensors), the whole body, or in
 * Tutti's own binary form.
 */
export type AnswerForm = "json" | "oip-binary" | "raw" | "tensors";

export interface LoadPlan {
  readonly transport: "http" | "nats";
  readonly port: number;
  /** Requests are drawn from these kinds, each equally likely. */
  readonly kinds: readonly LoadKind[];
  /** Poisson arrivals at this rate … */
  readonly perSecond: number;
  /** … or rising to this one, by the same factor in every second. */
  readonly toPerSecond?: number;
  readonly seconds: number;
  readonly sloMs: number;
  readonly seed: number;
  /** Whether it ends early. It does as soon as fewer than 99 % can be good, or once a rising rate is overloaded. */
  readonly giveUp: "never" | "missed" | "overloaded";
}

export interface LoadWindow {
  /** At the window's middle. */
  readonly perSecond: number;
  readonly offered: number;
  readonly good: number;
}

export interface LoadReport {
  readonly offered: number;
  /** Right and within the SLO. */
  readonly good: number;
  readonly wrong: number;
  readonly late: number;
  readonly refused: number;
  readonly lost: number;
  /** Latencies of all answers, sorted, in ms from when each request was due. */
  readonly latenciesMs: readonly number[];
  /** How late requests left the generator. */
  readonly lagP50Ms: number;
  readonly lagP99Ms: number;
  /** Share of a core that the generator's thread uses. */
  readonly busyShare: number;
  readonly gaveUp: boolean;
  readonly windows: readonly LoadWindow[];
  readonly byKind: Readonly<Record<string, { readonly offered: number; readonly good: number }>>;
}

/** Upper bound of searches: beyond it the generator itself is in question. */
export const RATE_MAX = 24_000;

/** Least share of good requests. */
export const GOOD_SHARE = 0.99;

/** A generator that lags by more than this share of the SLO … */
const LAG_SHARE = 1 / 3;
/** … while its thread has hardly any time left was the bottleneck itself. */
const BUSY_SHARE = 0.9;

export function wasBottleneck({ lagP99Ms, busyShare }: LoadReport, sloMs: number): boolean {
  return lagP99Ms > LAG_SHARE * sloMs && busyShare > BUSY_SHARE;
}

/** Quantile of sorted values; NaN without values. */
export function quantile(sorted: readonly number[], share: number): number {
  const value = sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? NaN;
  return Math.round(value * 100) / 100;
}

/** Arrivals in ms from the start, seeded, so that each system is asked at the same instants. */
export function* arrivals(plan: Pick<LoadPlan, "perSecond" | "toPerSecond" | "seconds" | "seed">): Generator<number> {
  let state = plan.seed >>> 0;
  let at = 0;
  for (;;) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    at += (-Math.log(1 - state / 2 ** 32) * 1_000) / rateAt(plan, at);
    yield at;
  }
}

export function rateAt(plan: Pick<LoadPlan, "perSecond" | "toPerSecond" | "seconds">, atMs: number): number {
  const { perSecond, toPerSecond = perSecond, seconds } = plan;
  return perSecond * (toPerSecond / perSecond) ** Math.min(1, atMs / (1_000 * seconds));
}
