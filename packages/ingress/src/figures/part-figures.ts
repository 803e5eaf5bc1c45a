import type { ErrorCode, StatsReported } from "@tutti/protocol";

type Parts = NonNullable<StatsReported["perPart"]>;
export type PartKind = Parts[number]["kind"];

/** Bound of the parts counted separately; further ones count for their whole alone (T7). */
const PARTS_MOST = 1_024;

export interface PartId {
  readonly kind: PartKind;
  /** Name of the family or pipeline. */
  readonly of: string;
  /** Name of the variant or stage; for a pipeline itself, its name again. */
  readonly name: string;
}

class Part {
  readonly refused = new Map<ErrorCode, number>();
  offered = 0;
  ok = 0;
  late = 0;
  latencyUs = 0;
}

/** Totals of variants, which share a queue, and of pipelines and their stages, which have none. */
export class PartFigures {
  readonly #parts = new Map<string, { readonly id: PartId; readonly part: Part }>();

  offered(id: PartId, count = 1): void {
    const part = this.#of(id);
    if (part !== undefined) part.offered += count;
  }
  answered(id: PartId, { late, latencyUs = 0 }: { readonly late: boolean; readonly latencyUs?: number }): void {
    const part = this.#of(id);
    if (part === undefined) return;
    part.ok++;
    part.latencyUs += latencyUs;
    if (late) part.late++;
  }
  refused(id: PartId, code: ErrorCode): void {
    const part = this.#of(id);
    if (part !== undefined) part.refused.set(code, (part.refused.get(code) ?? 0) + 1);
  }

  /** Forgets all parts of a family or pipeline. */
  forget(of: string): void {
    for (const [key, { id }] of this.#parts) if (id.of === of) this.#parts.delete(key);
  }

  report(): Parts {
    return [...this.#parts.values()].map(({ id, part }) => ({ ...id, figures: figuresOf(id, part) }));
  }

  #of(id: PartId): Part | undefined {
    const key = `${id.kind} ${id.of} ${id.name}`;
    let known = this.#parts.get(key);
    if (known === undefined && this.#parts.size < PARTS_MOST) this.#parts.set(key, (known = { id, part: new Part() }));
    return known?.part;
  }
}

function figuresOf({ kind }: PartId, { offered, ok, late, latencyUs, refused }: Part): Record<string, number> {
  const figures: Record<string, number> = { offered, ok, late, refused: 0 };
  if (kind === "pipeline") figures["latencyUs"] = latencyUs;
  for (const [code, times] of refused) {
    figures[`refused.${code}`] = times;
    figures["refused"]! += times;
  }
  return figures;
}
