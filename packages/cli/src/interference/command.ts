/**
 * `tutti profile --interference`: measures how models slow one another on two parts of one accelerator. It needs no
 * cluster.
 */
import { WHOLE } from "@tutti/planning";
import { parseBytes } from "@tutti/units";
import { usageError } from "@tutti/admin";
import { readFractionsInput } from "../plan/fractions-input.ts";
import { PROVIDERS } from "@tutti/host/role";
import { oneOf } from "@tutti/host";
import { thisMachine } from "@tutti/host/parts";
import { checkOutput, typedCommand, writeOutput } from "../present/output-file.ts";
import { readModelSources } from "@tutti/host/up";
import { emulatedBench } from "./emulated-bench.ts";
import { interferenceFile, interferenceJson, interferenceText } from "./interference-file.ts";
import { PAIRS_LEAST, measureInterference } from "./measurement.ts";
import type { PartsBench } from "./parts-bench.ts";
import { processBench } from "./process-bench.ts";

export interface InterferenceFlags {
  readonly json?: boolean;
  readonly out?: string;
  readonly models?: string;
  readonly emulate?: string;
  readonly set?: readonly string[];
  readonly noise?: string;
  readonly provider?: string;
  readonly sizes?: string;
  readonly pairs?: string;
  readonly runMs?: string;
  readonly cache?: string;
  readonly bandwidth?: string;
  readonly seed?: string;
}

export async function profileInterference(flags: InterferenceFlags): Promise<void> {
  const seed = numberOf("seed", flags.seed ?? "1", { min: 0, max: 2 ** 31 });
  const pairs = numberOf("pairs", flags.pairs ?? "60", { min: PAIRS_LEAST, max: 10_000 });
  checkOutput(flags.out);
  const bench = await (flags.emulate === undefined ? realBench(flags) : emulated(flags, flags.emulate, seed));
  try {
    const onProgress = (done: number, of: number, text: string): void => {
      if (process.stderr.isTTY) process.stderr.write(`\r\u001b[K[${done}/${of}] ${text}${done === of ? "\n" : ""}`);
    };
    const result = await measureInterference(bench, { pairs, seed, onProgress });
    if (flags.out !== undefined) writeOutput(flags.out, interferenceFile(result, typedCommand()));
    process.stdout.write(
      flags.json === true ? `${JSON.stringify(interferenceJson(result))}\n` : `${interferenceText(result)}\n`,
    );
  } finally {
    await bench.close();
  }
}

async function emulated(flags: InterferenceFlags, path: string, seed: number): Promise<PartsBench> {
  for (const name of ["models", "provider", "cache", "bandwidth", "sizes"] as const)
    if (flags[name] !== undefined) throw usageError(`--${name} is for real models: without --emulate`);
  const noise = numberOf("noise", flags.noise ?? "0.05", { min: 0, max: 0.9, fractions: true });
  return emulatedBench(await readFractionsInput(path, flags.set), { noise, seed });
}

async function realBench(flags: InterferenceFlags): Promise<PartsBench> {
  for (const name of ["noise", "set"] as const)
    if (flags[name] !== undefined) throw usageError(`--${name} goes with --emulate`);
  const provider = oneOf("provider", PROVIDERS, flags.provider ?? "cpu");
  if (provider === "webgpu") throw usageError("--provider webgpu: it can't be limited to a part of an accelerator");
  if (provider === "cuda" && (flags.cache === undefined || flags.bandwidth === undefined))
    throw usageError(
      "--provider cuda: give its L2 as --cache 50MB and its memory's bytes a second as --bandwidth 3350GB",
    );
  const { models } = await readModelSources({
    emulate: undefined,
    demo: flags.models === undefined,
    models: flags.models,
  });
  return processBench({
    ...{ models, machine: thisMachine(provider) },
    sizes: sizesOf(flags.sizes),
    runMs: numberOf("run-ms", flags.runMs ?? "300", { min: 1, max: 60_000 }),
    cacheBytes: bytesOf("cache", flags.cache),
    bytesPerSecond: bytesOf("bandwidth", flags.bandwidth),
  });
}

/** Parses `20,50,80`, and adds the complements and the whole. */
function sizesOf(text: string | undefined): number[] | undefined {
  if (text === undefined) return undefined;
  const given = text.split(",").map((size) => numberOf("sizes", size, { min: 1, max: WHOLE }));
  return [...new Set([...given, ...given.filter((size) => size < WHOLE).map((size) => WHOLE - size), WHOLE])].sort(
    (a, b) => a - b,
  );
}

function bytesOf(flag: string, text: string | undefined): number | undefined {
  const bytes = text === undefined ? undefined : parseBytes(text);
  if (text === undefined || (bytes !== undefined && bytes > 0)) return bytes;
  throw usageError(`--${flag} ${text}: a size, such as 50MB or 3350GB`);
}

function numberOf(
  flag: string,
  text: string,
  { min, max, fractions = false }: { readonly min: number; readonly max: number; readonly fractions?: boolean },
): number {
  const value = Number(text);
  if (text.trim() !== "" && value >= min && value <= max && (fractions || Number.isInteger(value))) return value;
  throw usageError(`--${flag} ${text}: a number from ${min} to ${max}`);
}
