/**
 * Classes of accelerators: those of one executor type have one number, 0 … CLASSES_MAX − 1. A candidate may name types
 * that can't run it in time; a bit for each class says which it may get.
 *
 *   CLASS-1. A type has one class, and a class one type, but for the last class: it is that of all types beyond the
 *            bound, and only for candidates that name no type.
 *   CLASS-2. Claims count every model whose newest candidate names a type, once in each class that it could get.
 *   CLASS-3. The class of a type without accelerators may be given to another type.
 */

/** Bits of a 32-bit integer. */
export const CLASSES_MAX = 32;
const OTHERS = CLASSES_MAX - 1;
/** Classes of a candidate that any accelerator can run. */
export const ALL_CLASSES = -1;
const ALL_BUT_OTHERS = ALL_CLASSES & ~(1 << OTHERS);

/** Numbers of executor types. */
export type UnfitTypes = readonly { readonly type: number }[];
export const NONE_UNFIT: UnfitTypes = [];

export class AcceleratorClasses {
  /** Types by class. */
  readonly #types: number[] = [];
  /** Accelerators by class. */
  readonly #members: number[] = [];
  /** Candidates with unfit types, by the classes that they could get. */
  readonly #claims: number[] = [];
  #changes = 0;

  /** Number of classes that had accelerators. */
  get count(): number {
    return this.#types.length;
  }
  /** How often a class was given to a type: `of` may answer otherwise since. */
  get changes(): number {
    return this.#changes;
  }

  /** An accelerator of this type comes. @returns its class */
  enter(type: number): number {
    const index = this.#classFor(type);
    this.#members[index] = this.#members[index]! + 1;
    return index;
  }
  leave(index: number): void {
    this.#members[index] = this.#members[index]! - 1;
  }
  typeOf(index: number): number {
    return this.#types[index]!;
  }
  /** Models that can't run everywhere, and could get this class: others leave it to them where they can. */
  claims(index: number): number {
    return this.#claims[index]!;
  }
  forgetClaims(): void {
    this.#claims.fill(0);
  }
  /** Counts a model that can't run everywhere (1), or not any more (−1). */
  claim(classes: number, by: 1 | -1): void {
    for (let i = 0; i < this.#claims.length; i++) if (((classes >> i) & 1) === 1) this.#claims[i]! += by;
  }

  /** Whether there are accelerators of other classes than these. */
  restricts(classes: number): boolean {
    if (classes === ALL_CLASSES) return false;
    return this.#members.some((count, i) => count > 0 && ((classes >> i) & 1) === 0);
  }
  /** A bit for each class that may get a candidate. */
  of(unfit: UnfitTypes): number {
    if (unfit.length === 0) return ALL_CLASSES;
    let classes = ALL_BUT_OTHERS;
    for (let i = 0; i < unfit.length; i++) {
      const index = this.#types.indexOf(unfit[i]!.type);
      if (index >= 0) classes &= ~(1 << index);
    }
    return classes;
  }

  #classFor(type: number): number {
    const known = this.#types.indexOf(type);
    if (known >= 0) return known;
    this.#changes++;
    const unused = this.#members.indexOf(0);
    const index = unused >= 0 ? unused : this.#types.length;
    if (index >= OTHERS) {
      this.#set(OTHERS, NO_TYPE);
      return OTHERS;
    }
    this.#set(index, type);
    return index;
  }
  #set(index: number, type: number): void {
    if (index === this.#types.length) {
      this.#members.push(0);
      this.#claims.push(0);
    }
    this.#types[index] = type;
  }
}

const NO_TYPE = -1;
