/** Recordings of a machine's noise: JSON lines, first a header, then one line for each standstill. */
import { readFile } from "node:fs/promises";
import { STALL_SCOPES, type SlowRuns, type Stall, type StallProcess, type StallScope } from "@tutti/simulator";
import { type Micros, micros, seconds } from "@tutti/units";
import { CommandError } from "@tutti/admin";

/** A standstill, and what stood still. */
export type ScopedStall = Stall & { readonly scope: StallScope };

export interface NoiseRecording {
  readonly length: Micros;
  /** In order. */
  readonly stalls: readonly ScopedStall[];
  /** Slowness of work in each interval of `every`, as a multiple of the median. */
  readonly every: Micros;
  readonly factors: readonly number[];
}

const VERSION = 1;

export function noiseLines({ length, every, stalls, factors }: NoiseRecording): string[] {
  const rounded = factors.map((factor) => Number(factor.toFixed(2)));
  const head = { noise: VERSION, seconds: length / 1e6, everyUs: every, factors: rounded };
  return [JSON.stringify(head), ...stalls.map(({ at, length: us, scope }) => JSON.stringify({ at, us, scope }))];
}

/**
 * @param scope - of all standstills. Default: each as recorded, and of the machine where a recording doesn't say
 * @throws {CommandError} there is no such file, or a line is invalid
 */
export async function readNoise(
  path: string,
  scope?: StallScope,
): Promise<{ readonly stalls: readonly StallProcess[]; readonly slow: SlowRuns }> {
  const text = await readFile(path, "utf8").catch(() => {
    throw new CommandError(`there is no recording of noise at ${path}; \`tutti record-noise ${path}\` makes one`);
  });
  const lines = text.split("\n").filter((line) => line !== "");
  const wrong = (line: number, what: string): CommandError => new CommandError(`${path}:${line}: ${what}`);
  const read = (line: string, i: number): Record<string, unknown> => {
    try {
      return Object(JSON.parse(line)) as Record<string, unknown>;
    } catch {
      throw wrong(i + 1, "no JSON");
    }
  };
  const [head = {}, ...rest] = lines.map(read);
  const { noise, seconds: duration, everyUs, factors } = head;
  if (noise !== VERSION || !isAbove0(duration) || !isAbove0(everyUs) || !areFactors(factors))
    throw wrong(
      1,
      `it doesn't begin as a recording: { "noise": ${VERSION}, "seconds": …, "everyUs": …, "factors": […] }`,
    );
  const length = seconds(duration);
  const recorded = new Map<StallScope, Stall[]>();
  for (const [i, { at, us, scope: of = "machine" }] of rest.entries()) {
    const isKnown = isScope(of) && Number.isInteger(at) && Number.isInteger(us) && (us as number) > 0;
    const before = (isKnown && recorded.get(of)) || [];
    const last = before.at(-1);
    const isInOrder = (at as number) >= (last === undefined ? 0 : last.at + last.length);
    if (!isKnown || !isInOrder || (at as number) + (us as number) > length)
      throw wrong(
        i + 2,
        `a standstill is { "at": …, "us": …, "scope": … } in whole µs, after the one before of its scope and within the recording; scopes are ${STALL_SCOPES.join(", ")}`,
      );
    recorded.set(of, before);
    before.push({ at: micros(at as number), length: micros(us as number) });
  }
  return {
    stalls: Array.from(recorded, ([of, stalls]) => ({ kind: "recorded", scope: scope ?? of, length, stalls })),
    slow: { kind: "recorded", every: micros(everyUs), factors },
  };
}

const isScope = (value: unknown): value is StallScope => STALL_SCOPES.some((scope) => scope === value);
const isAbove0 = (value: unknown): value is number => typeof value === "number" && value > 0 && Number.isFinite(value);
const areFactors = (value: unknown): value is number[] =>
  Array.isArray(value) && value.length > 0 && value.every((factor) => isAbove0(factor) && factor <= 1_000);
