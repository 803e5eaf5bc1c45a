/**
 * LengthCurve: l(1, size), the time that a request takes alone by its length, from recent runs. An accelerator that is
 * never idle has no time for isolated runs. But it runs batches whose longest member's length is known, and the batch
 * costs (B3) say how long this member would have taken alone.
 */

/** Width of a bin: lengths are told apart by a fifth of an octave, 15 %. */
const BINS_PER_OCTAVE = 5;
/** Most bins. 32 octaves of hints would need 160: the least recently used ones are dropped. */
const BINS = 64;
/** Weight of the newest run in the moving averages of a bin. */
const NEWEST = 0.2;

interface Bin {
  units: number;
  alone: number;
}

export class LengthCurve {
  /** By fifth of an octave, the last used last. */
  readonly #bins = new Map<number, Bin>();
  #sorted: readonly Bin[] | undefined;

  get size(): number {
    return this.#bins.size;
  }

  /** Records that a request of so many units (> 0) takes `alone` µs by itself. */
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
   * Time alone of a request, in µs. It never falls with the units: linear between lengths that have run, and in
   * proportion to the nearest length outside of them. Undefined before anything has run.
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

/**
 * Sorts by units and makes times monotone: a longer request doesn't take less, even if a busy neighbour slowed the run
 * of a short one.
 */
function rising(bins: readonly Bin[]): readonly Bin[] {
  let least = 0;
  return bins
    .toSorted((a, b) => a.units - b.units)
    .map(({ units, alone }) => ({ units, alone: (least = Math.max(least, alone)) }));
}
