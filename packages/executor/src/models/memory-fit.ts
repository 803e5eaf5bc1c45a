/** A model that should be here. */
export interface Resident {
  readonly name: string;
  readonly bytes: number;
  /** Memory that its runs take besides; they come one at a time, so the largest counts. Default: 0. */
  readonly dynamic?: number;
  /** Whether it is loaded, or being loaded. */
  readonly isHere: boolean;
}
/** `waits`: until models that are no longer wanted have left. `never`: not beside the models before it. */
export type Fit = "fits" | "waits" | "never";

export interface Memory {
  readonly max: number;
  /** Memory of models that are still here and will leave. */
  readonly leaving: number;
}

/** Determines which of the models fit, in their order. Models that are here keep their room. */
export function fitInMemory(residents: readonly Resident[], { max, leaving }: Memory): Map<string, Fit> {
  const fits = new Map<string, Fit>();
  let [used, largest] = [0, 0];
  for (const { name, bytes, dynamic = 0, isHere } of residents) {
    if (!isHere) continue;
    used += bytes;
    largest = Math.max(largest, dynamic);
    fits.set(name, "fits");
  }
  for (const { name, bytes, dynamic = 0, isHere } of residents) {
    if (isHere) continue;
    const need = used + bytes + Math.max(largest, dynamic);
    const fit = need + leaving <= max ? "fits" : need <= max ? "waits" : "never";
    // A waiting model has its room reserved.
    if (fit !== "never") {
      used += bytes;
      largest = Math.max(largest, dynamic);
    }
    fits.set(name, fit);
  }
  return fits;
}
