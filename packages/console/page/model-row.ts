/** How a model's row judges itself. Pure. */
import type { FeedModel, ReplayAnswer } from "../src/feed.ts";
import { goodShare } from "../src/history.ts";
import { figure, milliseconds } from "./format.ts";

export type Verdict = "good" | "bad" | "plain";

export interface RowVerdict {
  /** Share of the good, 0 … 1; null: nothing was decided. */
  readonly share: number | null;
  readonly inTime: Verdict;
  /** p99 over SLO; null: no answer. */
  readonly ratio: number | null;
  readonly latency: Verdict;
  /** Says why a p99 is beyond the SLO where the requests were in time nevertheless. */
  readonly note: string | undefined;
}

/** Share of good answers that a model is expected to reach. */
const GOOD_FROM = 0.99;

/**
 * Both verdicts speak of the same answers: a p99 is bad only where so many were late or refused. Requests that name a
 * longer deadline than the model's SLO may take longer and be in time.
 */
export function rowVerdict(model: Pick<FeedModel, "good" | "late" | "refused" | "p99Ms" | "sloMs">): RowVerdict {
  const share = goodShare(model);
  const inTime = share === null ? "plain" : share >= GOOD_FROM ? "good" : "bad";
  const ratio = model.p99Ms === null ? null : model.p99Ms / model.sloMs;
  if (ratio === null || share === null) return { share, inTime, ratio, latency: "plain", note: undefined };
  if (ratio <= 1) return { share, inTime, ratio, latency: "good", note: undefined };
  if (inTime === "bad") return { share, inTime, ratio, latency: "bad", note: undefined };
  // The p99 is that of one ingress, the share that of all.
  const note =
    (model.late ?? 0) === 0
      ? "beyond the SLO, but within the deadlines of the requests"
      : "beyond the SLO at the ingress where it is highest";
  return { share, inTime, ratio, latency: "plain", note };
}

export interface RefusedCause {
  /** Without its prefix: `OVERLOADED`. */
  readonly code: string;
  readonly rate: number;
  /** Models that refused for it, the one with most first. */
  readonly models: readonly string[];
}

/** Refusals of all models by cause, the most frequent first. */
export function refusedCauses(models: readonly Pick<FeedModel, "name" | "refused">[]): RefusedCause[] {
  const causes = new Map<string, { readonly name: string; readonly rate: number }[]>();
  for (const { name, refused } of models)
    for (const [code, rate] of Object.entries(refused))
      if (rate > 0) causes.set(code, [...(causes.get(code) ?? []), { name, rate }]);
  return [...causes]
    .map(([code, rates]) => ({
      code,
      rate: rates.reduce((sum, { rate }) => sum + rate, 0),
      models: rates.toSorted((a, b) => b.rate - a.rate).map(({ name }) => name),
    }))
    .sort((a, b) => b.rate - a.rate);
}

/** The long form of `14.5 / 20`. */
export function batchText({ batchMean, target }: Pick<FeedModel, "batchMean" | "target">): string {
  if (batchMean === null) return "No batch ran.";
  const wanted = target === null ? "" : `; the target at this rate is ${figure(target)}`;
  return `A batch had ${figure(batchMean)} requests on average${wanted}.`;
}

/** The long form of `732 ms / 1.0 s`. */
export function latencyText({ p99Ms, sloMs }: Pick<FeedModel, "p99Ms" | "sloMs">, note: string | undefined): string {
  if (p99Ms === null) return "Nothing was answered.";
  const text = `99 of 100 answers took ${milliseconds(p99Ms)} at most; the SLO is ${milliseconds(sloMs)}`;
  return note === undefined ? `${text}.` : `${text}: ${note}.`;
}

type ReplayedModel = Pick<ReplayAnswer["models"][number], "name" | "p99Ms" | "sloLeastMs" | "sloMostMs">;

export const sloText = ({ sloLeastMs: least, sloMostMs: most }: Omit<ReplayedModel, "name" | "p99Ms">): string =>
  least === most ? milliseconds(least) : `${milliseconds(least)} to ${milliseconds(most)}`;

/** Says what the figures are of, where they seem to contradict one another. */
export function replayNotes(models: readonly ReplayedModel[]): string[] {
  const several = models.filter(({ sloLeastMs, sloMostMs }) => sloLeastMs !== sloMostMs).map(({ name }) => name);
  const without = models.filter(({ p99Ms }) => p99Ms === null).map(({ name }) => name);
  return [
    several.length > 0 &&
      `Requests of ${several.join(", ")} have SLOs of their own: each is in time by its own, and the p99 is that of all.`,
    without.length > 0 && `${without.join(", ")} has no p99: more than one request in a hundred got no answer.`,
  ].filter((note) => note !== false);
}
