/**
 * Memory that a call asks for: typed arrays, and arrays of a given length, are counted while it runs. A length declared
 * in a message must never make a reader ask for more than the message's own bytes justify (T7, T8).
 */
const COUNTED = [
  "Uint8Array",
  "Uint8ClampedArray",
  "Int8Array",
  "Uint16Array",
  "Int16Array",
  "Uint32Array",
  "Int32Array",
  "Float32Array",
  "Float64Array",
  "BigInt64Array",
  "BigUint64Array",
  "ArrayBuffer",
  "Array",
] as const;

type Constructor = abstract new (...args: never[]) => object;
const originals = new Map(COUNTED.map((name) => [name, globalThis[name] as unknown as Constructor]));
let counted = 0;

/**
 * Counting constructors. An instance made by one is an instance of the original: `constructor` and `instanceof` are
 * unchanged.
 */
const standIns = new Map(
  [...originals].map(([name, original]) => {
    const unit = name === "Array" ? 8 : "BYTES_PER_ELEMENT" in original ? Number(original.BYTES_PER_ELEMENT) : 1;
    const standIn: Constructor = new Proxy(original, {
      construct(target, args: readonly unknown[], newTarget): object {
        const [first] = args;
        if (typeof first === "number") counted += first * unit;
        return Reflect.construct(target, args, newTarget === standIn ? target : newTarget) as object;
      },
      apply: (target, thisArgument, args) =>
        Reflect.apply(target as unknown as (...all: unknown[]) => unknown, thisArgument, args),
    });
    return [name, standIn] as const;
  }),
);

/** Bytes that `run` asked for by a length. Its exceptions pass through. */
export function allocatedBy(run: () => void): number {
  counted = 0;
  const globals = globalThis as unknown as Record<string, unknown>;
  for (const [name, standIn] of standIns) globals[name] = standIn;
  try {
    run();
  } finally {
    for (const [name, original] of originals) globals[name] = original;
  }
  return counted;
}
