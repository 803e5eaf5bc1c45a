/** A model that should be here. */
export interface Resident {
  readonly name: string;
  readonly bytes: number;
  /** Loaded, or on its way. */
  readonly isHere: boolean;
}
/** `waits`: until models that are no longer wanted have left. `never`: not beside those before it. */
export type Fit = "fits" | "waits" | "never";

export interface Memory {
  readonly max: number;
  /** Of models that are still here and will leave. */
  readonly leaving: number;
}

/** Which of the models fit, in their order; those that are here keep their room. */
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
    // Who waits has its room: others must not take it meanwhile.
    if (fit !== "never") used += bytes;
    fits.set(name, fit);
  }
  return fits;
}
