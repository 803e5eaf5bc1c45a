import { assert } from "./assert.ts";

/** A seeded 32-bit generator (sfc32): fast, small, and equal on every machine. Not for secrets. */
export class Prng {
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  constructor(seed: number) {
    this.#a = 0x9e3779b9 ^ seed;
    this.#b = 0x243f6a88;
    this.#c = seed | 0;
    for (let i = 0; i < 12; i++) this.nextUint32();
  }

  nextUint32(): number {
    const t = (((this.#a + this.#b) | 0) + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + t;
    this.#c |= 0;
    return t >>> 0;
  }

  /** Uniform in [0, 1). */
  nextFloat(): number {
    return this.nextUint32() / 2 ** 32;
  }

  /** Uniform among 0 … bound−1. */
  nextInt(bound: number): number {
    assert(bound > 0, "an empty range has no member");
    return Math.floor(this.nextFloat() * bound);
  }

  /** A gap of a Poisson process of `rate` events per unit of time: −ln(1−u)/rate. */
  nextExponential(rate: number): number {
    return -Math.log(1 - this.nextFloat()) / rate;
  }

  /** Standard normal, by Box and Muller. */
  nextNormal(): number {
    return Math.sqrt(-2 * Math.log(1 - this.nextFloat())) * Math.cos(2 * Math.PI * this.nextFloat());
  }

  /** An independent generator: one per actor or source, so that adding one does not shift the others' draws. */
  fork(): Prng {
    return new Prng(this.nextUint32());
  }
}
