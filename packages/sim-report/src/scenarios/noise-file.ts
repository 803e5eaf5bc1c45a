/** Recordings of a machine's noise: JSON lines, first a header, then one line for each standstill. */
import { readFile } from "node:fs/promises";
import type { StallProcess, SlowRuns, StallScope } from "@tutti/simulator";
import { type Micros, micros, seconds } from "@tutti/units";
import { CommandError } from "@tutti/admin";

export interface NoiseRecording {
  readonly length: Micros;
  readonly stalls: readonly { readonly at: Micros; readonly length: Micros }[];
  /** Slowness of work in each interval of `every`, as a multiple of the median. */
  readonly every: Micros;
  readonly factors: readonly number[];
}

const VERSION = 1;

export function noiseLines({ length, every, stalls, factors }: NoiseRecording): string[] {
  const rounded = factors.map((factor) => Number(factor.toFixed(2)));
  const head = { noise: VERSION, seconds: length / 1e6, everyUs: every, factors: rounded };
  return [JSON.stringify(head), ...stalls.map(({ at, length: us }) => JSON.stringify({ at, us }))];
}

/** @throws {CommandError} there is no such file, or a line is invalid */
export async function readNoise(
  path: string,
  scope: StallScope,
): Promise<{ readonly stalls: StallProcess; readonly slow: SlowRuns }> {
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
  let last = 0;
  const stalls = rest.map(({ at, us }, i) => {
    const isSound = Number.isInteger(at) && Number.isInteger(us) && (at as number) >= last && (us as number) > 0;
    if (!isSound || (last = (at as number) + (us as number)) > length)
      throw wrong(
        i + 2,
        `a standstill is { "at": …, "us": … } in whole µs, after the one before and within the recording`,
      );
    return { at: micros(at as number), length: micros(us as number) };
  });
  return {
    stalls: { kind: "recorded", scope, length, stalls },
    slow: { kind: "recorded", every: micros(everyUs), factors },
  };
}

const isAbove0 = (value: unknown): value is number => typeof value === "number" && value > 0 && Number.isFinite(value);
const areFactors = (value: unknown): value is number[] =>
  Array.isArray(value) && value.length > 0 && value.every((factor) => isAbove0(factor) && factor <= 1_000);
