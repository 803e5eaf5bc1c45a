/** Turns of the event loops that schedule, as their processes report them. */
import { actorToken } from "@tutti/units";
import { type HeardActor, latestOf, uptimeUs } from "./cluster-view.ts";
import { milliseconds, percent } from "./top-table.ts";

export interface SchedulingTurns {
  /** The batcher or ranker that reports them for its process. */
  readonly actor: string;
  readonly role: string;
  readonly host: string;
  /** The percentiles and the longest are those of the last minute. */
  readonly p50Us: number;
  readonly p999Us: number;
  readonly maxUs: number;
  /** Share of the turns that was garbage collection. */
  readonly gcShare: number;
  /** The process is older than the minute, which then has nothing of its start. */
  readonly isSettled: boolean;
}

const MINUTE_US = 60_000_000;

/** One row for each process, with the longest turn first. */
export function schedulingTurns(actors: readonly HeardActor[]): SchedulingTurns[] {
  return actors
    .flatMap((actor): SchedulingTurns[] => {
      const { role, host } = actor.beat;
      const figures = latestOf(actor)?.figures ?? {};
      const maxUs = figures["minuteTurnMaxUs"];
      if ((role !== "batcher" && role !== "ranker") || maxUs === undefined) return [];
      const of = (name: string): number => figures[name] ?? 0;
      return [
        {
          ...{ actor: actorToken(actor.key), role, host, maxUs },
          ...{ p50Us: of("minuteTurnP50Us"), p999Us: of("minuteTurnP999Us"), gcShare: of("minuteGcShare") },
          isSettled: uptimeUs(actor) > MINUTE_US,
        },
      ];
    })
    .sort((a, b) => b.maxUs - a.maxUs);
}

export const turnsText = ({ p50Us, p999Us, maxUs, gcShare }: SchedulingTurns): string =>
  `p50 ${milliseconds(p50Us)}, p99.9 ${milliseconds(p999Us)}, longest ${milliseconds(maxUs)}, ${percent(gcShare)} garbage collection`;
