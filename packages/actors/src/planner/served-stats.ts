import type { StatsReported } from "@tutti/protocol";
import type { ActorKey } from "@tutti/units";

/** Bound of the actors whose last totals are known; beyond it, the one that was silent longest is forgotten (T7). */
const ACTORS_MAX = 4_096;

/** Outcomes of a model's requests, and of copies that were compared. */
export interface Served {
  readonly good: number;
  readonly bad: number;
  readonly compared: number;
  readonly mismatched: number;
}
type Figures = Readonly<Record<string, number>>;

/** Refusals that are not the requester's fault. */
const FAULTS = [
  "TUTTI_INTERNAL",
  "TUTTI_OVERLOADED",
  "TUTTI_UNAVAILABLE",
  "TUTTI_NOT_READY",
  "TUTTI_DEADLINE_INFEASIBLE",
  "TUTTI_DEADLINE_EXCEEDED",
] as const;

interface Watched {
  readonly model: number;
  readonly step: string;
  served: Served;
}

/** Counts the outcomes of requests to watched models, from the totals that actors report, each since its start. */
export class ServedStats {
  readonly #actors = new Map<ActorKey, Map<number, Served>>();
  readonly #watched = new Map<string, Watched>();

  note({ key, role }: Pick<StatsReported, "key" | "role">, rows: readonly { model: number; figures: Figures }[]): void {
    if (role !== "ingress" && role !== "executor") return;
    const totals = new Map<number, Served>();
    for (const { model, figures } of rows)
      totals.set(model, plus(totals.get(model) ?? NONE, role === "ingress" ? answered(figures) : compared(figures)));
    const before = this.#actors.get(key);
    this.#actors.delete(key);
    if (this.#actors.size >= ACTORS_MAX) this.#actors.delete(this.#actors.keys().next().value!);
    this.#actors.set(key, totals);
    // Requests counted before the first report belong to an earlier time.
    if (before === undefined) return;
    for (const watched of this.#watched.values()) {
      const now = totals.get(watched.model);
      if (now !== undefined) watched.served = plus(watched.served, rise(before.get(watched.model) ?? NONE, now));
    }
  }

  /** Outcomes of the model watched under a name, since that step began. Another step or model starts from zero. */
  since(name: string, { model, step }: { readonly model: number; readonly step: string }): Served {
    const known = this.#watched.get(name);
    if (known?.model === model && known.step === step) return known.served;
    this.#watched.set(name, { model, step, served: NONE });
    return NONE;
  }

  watchOnly(names: ReadonlySet<string>): void {
    for (const name of this.#watched.keys()) if (!names.has(name)) this.#watched.delete(name);
  }
}

const NONE: Served = { good: 0, bad: 0, compared: 0, mismatched: 0 };

function answered(figures: Figures): Served {
  const { ok = 0, late = 0 } = figures;
  const bad = FAULTS.reduce((sum, code) => sum + (figures[`refused.${code}`] ?? 0), late);
  return { ...NONE, good: ok - late, bad };
}
const compared = ({ shadowCompared = 0, shadowDiffer = 0 }: Figures): Served => ({
  ...NONE,
  compared: shadowCompared,
  mismatched: shadowDiffer,
});

const plus = (a: Served, b: Served): Served => ({
  good: a.good + b.good,
  bad: a.bad + b.bad,
  compared: a.compared + b.compared,
  mismatched: a.mismatched + b.mismatched,
});
/** Totals only rise; one that fell has restarted from zero. */
const rise = (before: Served, now: Served): Served => {
  const of = (name: keyof Served): number => (now[name] >= before[name] ? now[name] - before[name] : now[name]);
  return { good: of("good"), bad: of("bad"), compared: of("compared"), mismatched: of("mismatched") };
};
