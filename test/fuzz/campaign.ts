/** Feeds one reader with malformed messages, and reports its first fault. */
import { Prng } from "@tutti/units";
import { allocatedBy } from "./allocations.ts";
import { mutated, mutatedValue, randomBytes } from "./mutation.ts";
import type { Target } from "./targets.ts";

export interface Outcome {
  readonly cases: number;
  /** Cases that were refused with a typed error. */
  readonly refused: number;
  /** First fault, with the bytes in hex. */
  readonly fault: string | undefined;
}

const TYPED = new Set(["TuttiError", "CommandError"]);
/** Bytes that a reader may allocate for each byte of the message: decoded values are wider than their encoding. */
const BYTES_PER_BYTE = 64;
const ROOM = 8_192;

export function attack(target: Target, options: { readonly seed: number; readonly cases: number }): Outcome {
  const prng = new Prng(options.seed);
  const { samples } = target;
  let refused = 0;
  for (let i = 0; i < options.cases; i++) {
    const sample = samples[prng.nextInt(samples.length)]!;
    const other = samples[prng.nextInt(samples.length)]!;
    const bytes =
      target.reform !== undefined && prng.nextInt(2) === 0
        ? target.reform(sample, (value) => mutatedValue(value, prng))
        : prng.nextInt(16) === 0
          ? randomBytes(prng, 512)
          : mutated(sample, other, prng);
    const result = judge(target, bytes);
    if (result === "refused") refused++;
    else if (result !== "read")
      return { cases: i + 1, refused, fault: `${target.name}, case ${i} of seed ${options.seed}: ${result}` };
  }
  return { cases: options.cases, refused, fault: undefined };
}

/** Judges one reading: "read", "refused", or the fault. */
export function judge(target: Target, bytes: Uint8Array): string {
  let outcome = "read";
  const before = Buffer.from(bytes);
  const asked = allocatedBy(() => {
    try {
      target.read(bytes);
    } catch (error) {
      outcome = refusalOf(error);
    }
  });
  const allowed = BYTES_PER_BYTE * bytes.byteLength + (target.room ?? ROOM);
  if (asked > allowed) outcome = `asks for ${asked} bytes, ${allowed} are justified`;
  if (before.compare(bytes) !== 0) outcome = "changes the bytes that it reads";
  return outcome === "read" || outcome === "refused"
    ? outcome
    : `${outcome}\n${before.toString("hex").slice(0, 4_000)}`;
}

function refusalOf(error: unknown): string {
  const isTyped = error instanceof Error && TYPED.has(error.name);
  if (isTyped && (error as { readonly code?: string }).code !== "TUTTI_INTERNAL") return "refused";
  return `throws ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`;
}
