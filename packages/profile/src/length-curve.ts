/**
 * l(1, size): what a request takes alone by its length, from whatever ran lately. An accelerator that is never idle
 * runs nothing again, but it sees batches whose longest member's length is known, and what batches cost of that (B3)
 * says what this member would have taken alone.
 */

/** Lengths are told apart by a fifth of an octave, 15 %. */
const BINS_PER_OCTAVE = 5;
/** 32 octaves of hints would be 160: the ones that were used least lately are let go. */
const BINS = 64;
/** Of what is known of a length, so much is the newest run's. */
const NEWEST = 0.2;

interface Bin {
  units: number;
  alone: number;
}

export class LengthCurve {
  /** By octave part, the last used last. */
  readonly #bins = new Map<number, Bin>();
  #sorted: readonly Bin[] | undefined;

  get size(): number {
    return this.#bins.size;
  }

  /** A request of so many units (> 0) takes `alone` µs by itself. */
  note(units: number, alone: number): void {
    const place = Math.round(BINS_PER_OCTAVE * Math.log2(units));
    const bin = this.#bins.get(place);
    this.#sorted = undefined;
    if (bin === undefined) {
      this.#bins.set(place, { units, alone });
      for (const oldest of this.#bins.keys()) {
        if (this.#bins.size <= BINS) break;
        this.#bins.delete(oldest);
      }
      return;
    }
    bin.units += NEWEST * (units - bin.units);
    bin.alone += NEWEST * (alone - bin.alone);
    this.#bins.delete(place);
    this.#bins.set(place, bin);
  }

  /**
   * In µs, never less for more units: along a line between lengths that have run, in proportion to the nearest one
   * outside of them. Undefined before anything has run.
   */
  at(units: number): number | undefined {
    const bins = (this.#sorted ??= rising([...this.#bins.values()]));
    const next = bins.findIndex((bin) => bin.units >= units);
    const above = bins[next];
    const below = bins[(next < 0 ? bins.length : next) - 1];
    if (above === undefined) return below === undefined ? undefined : (below.alone * units) / below.units;
    if (below === undefined) return (above.alone * units) / above.units;
    const part = (units - below.units) / (above.units - below.units);
    return below.alone + part * (above.alone - below.alone);
  }
}

/** By units; a longer request doesn't take less, whatever a busy neighbour made of a short one's run. */
function rising(bins: readonly Bin[]): readonly Bin[] {
  let least = 0;
  return bins
    .toSorted((a, b) => a.units - b.units)
    .map(({ units, alone }) => ({ units, alone: (least = Math.max(least, alone)) }));
}
