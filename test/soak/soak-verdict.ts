/** Judges the record of a soak: whether something grew, was lost, or was answered wrongly. Pure. */
import { type Verdict, failuresOf, judge } from "../e2e/chaos/verdict.ts";
import type { Kind, Series } from "./sampler.ts";
import type { SoakRecord } from "./soak-run.ts";
import { type Trend, grows, trendOf } from "./trend.ts";

/** Growth that a series may have at the end: caches that fill, and log lines of each strike. */
const ALLOWED: Readonly<Record<Kind, { readonly share: number; readonly least: number }>> = {
  memory: { share: 0.05, least: 8_388_608 },
  descriptors: { share: 0, least: 3 },
  disk: { share: 0.05, least: 8_388_608 },
};
/** Time until compilers, pools and caches have reached their size: a third of the run, between these. */
const WARM_SHARE = 1 / 3;
const WARM_S = { min: 180, max: 1_200 };
/** Shortest series that is judged: a heap alone takes that long to find its size. */
const JUDGED_S_MIN = 300;

export interface SeriesVerdict {
  readonly kind: Kind;
  readonly name: string;
  /** Undefined: the series is too short. */
  readonly trend: Trend | undefined;
  readonly max: number;
  readonly grew: boolean;
}

export interface SoakVerdict {
  readonly series: readonly SeriesVerdict[];
  readonly requests: Omit<Verdict, "fates">;
  /** Empty: passed. */
  readonly failures: readonly string[];
}

export const warmSeconds = (seconds: number): number =>
  Math.min(WARM_S.max, Math.max(WARM_S.min, WARM_SHARE * seconds));

/** @param shareMin - share of the requests that must be in time, outside the moments after strikes */
export function soakVerdict({ chaos, series, counts }: SoakRecord, graceMs: number, shareMin: number): SoakVerdict {
  const { fates: _, ...requests } = judge(chaos, graceMs);
  const fromS = warmSeconds((chaos.endedMs - chaos.startedMs) / 1_000);
  const judged = series.map((one) => judgeSeries(one, fromS));
  const grown = judged.filter(({ grew }) => grew);
  return {
    series: judged,
    requests,
    failures: [
      ...grown.map((one) => `${one.kind} of ${one.name} grows: ${slopeText(one)}`),
      ...failuresOf({ ...requests, fates: [] }, shareMin),
      ...(counts.failedLoads.length > 0
        ? [`${counts.failedLoads.length} loads failed, first: ${counts.failedLoads[0]}`]
        : []),
    ],
  };
}

function judgeSeries({ kind, name, samples }: Series, fromS: number): SeriesVerdict {
  const trend = trendOf(samples, fromS);
  const { share, least } = ALLOWED[kind];
  const grew =
    trend !== undefined && trend.seconds >= JUDGED_S_MIN && grows(samples, fromS, Math.max(least, share * trend.mean));
  return { kind, name, trend, max: Math.max(...samples.map(({ value }) => value)), grew };
}

const HOUR_S = 3_600;

/** The slope per hour, with its error. */
export function slopeText({ kind, trend }: Pick<SeriesVerdict, "kind" | "trend">): string {
  if (trend === undefined) return "too short to tell";
  const [unit, factor] = kind === "descriptors" ? ["", 1] : [" MB", 1 / 1_048_576];
  const shown = (perSecond: number): string => (perSecond * HOUR_S * factor).toFixed(1);
  return `${shown(trend.slope)} ± ${shown(trend.error)}${unit} an hour`;
}
