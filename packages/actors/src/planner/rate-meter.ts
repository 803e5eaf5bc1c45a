import type { StatsReported } from "@tutti/protocol";
import { type ActorKey, type Instant, type Micros, before } from "@tutti/units";

/** Bound of the actors kept; beyond it, newcomers wait until one is silent (T7). */
const ACTORS_MAX = 4_096;
/** Bound of the reports of one actor, over the window. */
const REPORTS_KEPT = 64;

type Row = { readonly id: number; readonly figures: Readonly<Record<string, number>> };

interface Report {
  readonly at: Instant;
  readonly rows: ReadonlyMap<number, Readonly<Record<string, number>>>;
}

/**
 * Turns figures that actors report as totals since their start into rates: differences over a window, per actor, added
 * up. An actor that has just started or come back counts from its second report on.
 */
export class RateMeter {
  readonly #window: Micros;
  readonly #silence: Micros;
  readonly #actors = new Map<ActorKey, { heardAt: Instant; readonly reports: Report[] }>();

  /** @param silence - an actor that reports nothing for this long is forgotten */
  constructor({ window, silence }: { readonly window: Micros; readonly silence: Micros }) {
    this.#window = window;
    this.#silence = silence;
  }

  note({ key, at }: Pick<StatsReported, "key" | "at">, rows: Iterable<Row>, now: Instant): void {
    let actor = this.#actors.get(key);
    if (actor === undefined) {
      this.#forgetSilent(now);
      if (this.#actors.size >= ACTORS_MAX) return;
      this.#actors.set(key, (actor = { heardAt: now, reports: [] }));
    }
    const { reports } = actor;
    const last = reports.at(-1);
    if (last !== undefined && at <= last.at) return;
    actor.heardAt = now;
    reports.push({ at, rows: new Map(Array.from(rows, ({ id, figures }) => [id, figures])) });
    // One report as old as the window is kept: differences are taken from it.
    while (reports.length > REPORTS_KEPT || (reports.length > 2 && reports[1]!.at <= before(at, this.#window)))
      reports.shift();
  }

  /** Rates per second, by id, over the window; of figures that were reported, added up over actors. */
  rates(now: Instant, name: string): Map<number, number> {
    return this.#rates(now, name, (reports) => reports[0]);
  }

  /** The same between the last two reports of each actor. */
  latest(now: Instant, name: string): Map<number, number> {
    return this.#rates(now, name, (reports) => reports.at(-2));
  }

  /** The ids whose figure has grown between the last two reports of an actor. */
  grown(key: ActorKey, name: string): number[] {
    const [before, last] = this.#actors.get(key)?.reports.slice(-2) ?? [];
    if (before === undefined || last === undefined) return [];
    return [...last.rows]
      .filter(([id, figures]) => (figures[name] ?? 0) > (before.rows.get(id)?.[name] ?? 0))
      .map(([id]) => id);
  }

  #rates(now: Instant, name: string, firstOf: (reports: readonly Report[]) => Report | undefined): Map<number, number> {
    this.#forgetSilent(now);
    const rates = new Map<number, number>();
    for (const { reports } of this.#actors.values()) {
      const [first, last] = [firstOf(reports), reports.at(-1)];
      if (first === undefined || last === undefined || last.at <= first.at) continue;
      for (const [id, figures] of last.rows) {
        const counted = (figures[name] ?? 0) - (first.rows.get(id)?.[name] ?? 0);
        // A total that fell has restarted from zero.
        rates.set(id, (rates.get(id) ?? 0) + (Math.max(0, counted) * 1e6) / (last.at - first.at));
      }
    }
    return rates;
  }

  #forgetSilent(now: Instant): void {
    for (const [key, { heardAt }] of this.#actors) if (now - heardAt > this.#silence) this.#actors.delete(key);
  }
}
