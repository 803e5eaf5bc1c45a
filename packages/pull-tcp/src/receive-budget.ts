/**
 * The memory in which frames are put together, over all connections of one side. A frame takes its whole length before
 * it is received; what is refused here is never allocated.
 */
export class ReceiveBudget {
  readonly #bytesMax: number;
  #heldBytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** Whether an empty buffer may be kept for the next frame: the other half is left to frames under way. */
  get isAmple(): boolean {
    return this.#heldBytes <= this.#bytesMax / 2;
  }

  /** @returns false: that much is not left, and nothing is taken */
  take(byteLength: number): boolean {
    if (this.#heldBytes + byteLength > this.#bytesMax) return false;
    this.#heldBytes += byteLength;
    return true;
  }

  give(byteLength: number): void {
    this.#heldBytes -= byteLength;
  }
}
