import type { StatsReported } from "@tutti/protocol";

/** Means of the delays between actors, in µs. */
export interface MeasuredDelays {
  /** From a request's arrival at its ingress until a batcher can plan with it. */
  readonly arriveUs: number;
  /** From the moment at which a grant was due until it came. */
  readonly grantUs: number;
  /** From a grant until its batch can start. */
  readonly startUs: number;
  /** Time that batchers set aside for the way of an answer. */
  readonly respondUs: number;
}

type Report = Pick<StatsReported, "perThread">;
type Figures = Readonly<Record<string, number>>;

/**
 * Delays as batchers measured them between two of their reports, or since each began, over all requests.
 *
 * @param reports - of each batcher, its last report, and an earlier one
 */
export function measuredDelays(
  reports: Iterable<{ readonly last: Report; readonly earlier?: Report | undefined }>,
): MeasuredDelays {
  const threads = [...reports].flatMap(({ last, earlier }) =>
    (last.perThread ?? []).map(({ thread, figures }) => ({
      figures,
      before: earlier?.perThread?.find((one) => one.thread === thread)?.figures ?? {},
    })),
  );
  const rise = (name: string): number =>
    threads.reduce((sum, { figures, before }) => sum + Math.max(0, (figures[name] ?? 0) - (before[name] ?? 0)), 0);
  const mean = (total: string, count: string): number => rise(total) / Math.max(1, rise(count));
  const weightOf = (figures: Figures): number => 1 + (figures["arrivals"] ?? 0);
  const weights = threads.reduce((sum, { figures }) => sum + weightOf(figures), 0);
  const respond = threads.reduce((sum, { figures }) => sum + weightOf(figures) * (figures["respondUs"] ?? 0), 0);
  return {
    arriveUs: mean("arrivalLagUs", "arrivals"),
    grantUs: mean("grantLagUs", "grants"),
    startUs: mean("startDelayUs", "finished"),
    respondUs: respond / Math.max(1, weights),
  };
}
