/**
 * Figures of each model over one window, from the reports of ingresses and batchers, which come once a second. All of a
 * row of the console comes from here, so that its share in time, its p99 and its refusals speak of the same seconds.
 *
 *   WINDOW-1. Bounded (T7): at most `REPORTERS_MAX` actors, and `REPORTS_KEPT_MAX` reports of each.
 */
import { WINDOW_S } from "../index.ts";
import type { StatsReported } from "@tutti/protocol";
import { type ActorKey, type Instant, type Micros, type ThreadId, between, modelNumberOf, seconds } from "@tutti/units";

export const REPORTERS_MAX = 1_024;
/** A window of reports, and some that come late. */
export const REPORTS_KEPT_MAX = 16;
const WINDOW: Micros = seconds(WINDOW_S);
/** The figures of an actor that is silent for so long no longer count. */
const SILENT_AFTER: Micros = seconds(5);

type Rows = NonNullable<StatsReported["perThread"]>;
type Figures = Rows[number]["figures"];
interface Reporter {
  readonly role: "ingress" | "batcher";
  readonly reports: KeptReport[];
  /** By this process' clock: the reporter's may be wrong by more than an actor may be silent. */
  heardAt: Instant;
}
interface KeptReport {
  readonly at: Instant;
  readonly rows: Rows;
}

/** Rates per second; undefined where none is known yet. */
export interface ModelWindow {
  offered: number | undefined;
  good: number | undefined;
  late: number | undefined;
  /** By cause, without its prefix. */
  refused: Record<string, number>;
  queue: number;
  batchMean: number | undefined;
  /** With several buckets the largest. */
  target: number | undefined;
  /** At the ingress where it is highest; 0: no answer. */
  p99Us: number;
}

const REFUSED = "refused.TUTTI_";
const NO_FIGURES: Figures = {};

export class ModelWindows {
  readonly #reporters = new Map<ActorKey, Reporter>();
  #models: Map<number, ModelWindow> | undefined;

  hear({ key, role, at, perThread = [] }: StatsReported, heardAt: Instant): void {
    if (role !== "ingress" && role !== "batcher") return;
    const known = this.#reporters.get(key);
    if (known === undefined && this.#reporters.size >= REPORTERS_MAX) return;
    const reports = known?.reports ?? [];
    if (known === undefined) this.#reporters.set(key, { role, reports, heardAt });
    else known.heardAt = heardAt;
    reports.push({ at, rows: perThread });
    // The first report is at the window's beginning or just before: rates cover the whole of it.
    while (reports.length > REPORTS_KEPT_MAX || (reports.length > 1 && between(reports[1]!.at, at) >= WINDOW))
      reports.shift();
    this.#models = undefined;
  }

  /** Figures by the model's number. */
  figures(now: Instant): ReadonlyMap<number, ModelWindow> {
    for (const [key, { heardAt }] of this.#reporters)
      if (between(heardAt, now) > SILENT_AFTER) {
        this.#reporters.delete(key);
        this.#models = undefined;
      }
    return (this.#models ??= this.#compute());
  }

  #compute(): Map<number, ModelWindow> {
    const models = new Map<number, ModelWindow>();
    const ran = new Map<number, { batches: number; items: number }>();
    for (const { role, reports } of this.#reporters.values()) {
      const [first, last] = [reports[0]!, reports.at(-1)!];
      const lasted = between(first.at, last.at) / 1e6;
      const before = new Map<ThreadId, Figures>(first.rows.map(({ thread, figures }) => [thread, figures]));
      for (const { thread, figures } of last.rows) {
        const number = modelNumberOf(thread);
        const model = windowOf(models, number);
        const was = before.get(thread) ?? NO_FIGURES;
        if (role === "ingress") addIngress(model, was, figures, lasted);
        else addBatcher(model, sumsOf(ran, number), was, figures, lasted);
      }
    }
    for (const [number, { batches, items }] of ran)
      if (batches > 0) windowOf(models, number).batchMean = items / batches;
    return models;
  }
}

function windowOf(models: Map<number, ModelWindow>, number: number): ModelWindow {
  let model = models.get(number);
  if (model === undefined) {
    const unknown = { offered: undefined, good: undefined, late: undefined, batchMean: undefined, target: undefined };
    models.set(number, (model = { ...unknown, refused: {}, queue: 0, p99Us: 0 }));
  }
  return model;
}

function sumsOf(ran: Map<number, { batches: number; items: number }>, number: number) {
  let sums = ran.get(number);
  if (sums === undefined) ran.set(number, (sums = { batches: 0, items: 0 }));
  return sums;
}

function addIngress(model: ModelWindow, was: Figures, is: Figures, lasted: number): void {
  model.p99Us = Math.max(model.p99Us, is["p99Us"] ?? 0);
  if (lasted <= 0) return;
  const rate = (name: string): number => rise(was, is, name) / lasted;
  const late = rate("late");
  model.offered = (model.offered ?? 0) + rate("offered");
  model.late = (model.late ?? 0) + late;
  model.good = (model.good ?? 0) + Math.max(0, rate("ok") - late);
  for (const name of Object.keys(is)) {
    if (!name.startsWith(REFUSED)) continue;
    const perSecond = rate(name);
    const cause = name.slice(REFUSED.length);
    if (perSecond > 0) model.refused[cause] = (model.refused[cause] ?? 0) + perSecond;
  }
}

function addBatcher(
  model: ModelWindow,
  ran: { batches: number; items: number },
  was: Figures,
  is: Figures,
  lasted: number,
): void {
  model.queue += is["queued"] ?? 0;
  const target = is["target"];
  if (target !== undefined) model.target = Math.max(target, model.target ?? 0);
  if (lasted <= 0) return;
  ran.batches += rise(was, is, "batches");
  ran.items += rise(was, is, "items");
}

/** Increase of a total; one that fell began anew from zero. */
function rise(was: Figures, is: Figures, name: string): number {
  const [before, now] = [was[name] ?? 0, is[name] ?? 0];
  return now >= before ? now - before : now;
}
