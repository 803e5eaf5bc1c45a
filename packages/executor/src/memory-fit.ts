/** A model that should be here. */
export interface Resident {
  readonly name: string;
  readonly bytes: number;
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
  let used = 0;
  for (const { name, bytes, isHere } of residents) {
    if (!isHere) continue;
    used += bytes;
    fits.set(name, "fits");
  }
  for (const { name, bytes, isHere } of residents) {
    if (isHere) continue;
    const fit = used + leaving + bytes <= max ? "fits" : used + bytes <= max ? "waits" : "never";
    // A waiting model has its room reserved.
    if (fit !== "never") used += bytes;
    fits.set(name, fit);
  }
  return fits;
}
