/**
 * GpuTimes: paid and busy time of accelerators, from look to look. Running batches count up to now, as executors report
 * them; released accelerators count as paid while they end their batches.
 */
export class GpuTimes {
  /** By accelerator: planned begins of batches that have not ended, in order. */
  readonly #begins: readonly number[][];
  readonly #lastEnds: Float64Array;
  #from = 0;
  /** Busy time of batches that ended since `#from`, as far as it lies after it. */
  #busy = 0;
  #draining = 0;
  /** Number of accelerators that serve: the first ones. */
  serving: number;

  constructor(gpus: number, serving: number) {
    this.serving = serving;
    this.#begins = Array.from({ length: gpus }, () => []);
    this.#lastEnds = new Float64Array(gpus);
  }

  dispatched(gpu: number, begin: number): void {
    this.#begins[gpu]!.push(begin);
  }
  finished(gpu: number, begin: number, end: number): void {
    this.#begins[gpu]!.shift();
    if (gpu >= this.serving) this.#draining += end - Math.max(this.#lastEnds[gpu]!, this.#from);
    this.#lastEnds[gpu] = end;
    this.#busy += end - Math.max(begin, this.#from);
  }

  /**
   * µs since the last call, all accelerators together.
   *
   * @param counted - accelerators that serve or start
   */
  since(at: number, counted: number): { readonly paid: number; readonly busy: number } {
    let busy = this.#busy;
    let draining = this.#draining;
    for (const [gpu, begins] of this.#begins.entries()) {
      if (begins.length === 0) continue;
      // None of the batches behind the first has begun.
      const free = Math.max(this.#lastEnds[gpu]!, this.#from);
      busy += Math.max(0, at - Math.max(begins[0]!, free));
      if (gpu >= this.serving) draining += at - free;
    }
    const paid = counted * (at - this.#from) + draining;
    this.#from = at;
    this.#busy = this.#draining = 0;
    return { paid, busy };
  }
}
