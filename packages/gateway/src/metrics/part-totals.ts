/** Running totals of variants, pipelines and stages, over all ingresses. */
import { ERROR_STATUS, type StatsReported, isModelName } from "@tutti/protocol";

export type PartReport = NonNullable<StatsReported["perPart"]>[number];

/** Beyond, parts have no totals of their own (T7). */
const PARTS_MOST = 4_096;

export interface PartTotals {
  readonly kind: PartReport["kind"];
  readonly of: string;
  readonly name: string;
  offered: number;
  ok: number;
  late: number;
  /** Counted for pipelines only. */
  latencyUs: number;
  readonly refused: Map<string, number>;
}

export class PartCounters {
  readonly #parts = new Map<string, PartTotals>();

  /** @param last - the previous report of the same part, from the same actor */
  add(part: PartReport, last: PartReport | undefined): void {
    const totals = this.#of(part);
    if (totals === undefined) return;
    const rise = (figure: string): number => {
      const [now, was] = [part.figures[figure] ?? 0, last?.figures[figure] ?? 0];
      return now >= was ? now - was : now;
    };
    for (const figure of ["offered", "ok", "late", "latencyUs"] as const) totals[figure] += rise(figure);
    for (const figure of Object.keys(part.figures)) {
      const code = figure.startsWith("refused.") ? figure.slice("refused.".length) : "";
      if (Object.hasOwn(ERROR_STATUS, code)) totals.refused.set(code, (totals.refused.get(code) ?? 0) + rise(figure));
    }
  }

  ofKind(kind: PartReport["kind"]): readonly Readonly<PartTotals>[] {
    return [...this.#parts.values()].filter((part) => part.kind === kind);
  }

  ofPipeline(name: string): Readonly<PartTotals> | undefined {
    return this.#parts.get(keyOf({ kind: "pipeline", of: name, name }));
  }

  /** Removes all variants of a family. */
  forget(family: string): void {
    for (const [key, { kind, of }] of this.#parts) if (kind === "variant" && of === family) this.#parts.delete(key);
  }

  #of({ kind, of, name }: PartReport): PartTotals | undefined {
    const key = keyOf({ kind, of, name });
    let known = this.#parts.get(key);
    if (known === undefined && this.#parts.size < PARTS_MOST && isModelName(of) && isModelName(name))
      this.#parts.set(key, (known = { kind, of, name, offered: 0, ok: 0, late: 0, latencyUs: 0, refused: new Map() }));
    return known;
  }
}

export const keyOf = ({ kind, of, name }: Pick<PartReport, "kind" | "of" | "name">): string => `${kind} ${of} ${name}`;
