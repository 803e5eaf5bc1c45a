/** Input of `tutti plan scale`: a scenario of the simulator, and a forecast of its rate. */
import { dirname, join } from "node:path";
import type { Scenario } from "@tutti/simulator";
import { type Micros, seconds } from "@tutti/units";
import { CommandError } from "@tutti/admin";
import { type Problem, readScenario } from "@tutti/sim-report/scenarios";
import { readPlanFile } from "./plan-file.ts";

/** The document after the schema check. */
interface ScaleDocument {
  readonly scenario: string;
  readonly set?: Readonly<Record<string, string | number>>;
  readonly gpus?: number;
  readonly rates: readonly number[];
  readonly windowS?: number;
  readonly ask?: "simulator" | "nobody";
  readonly badRateMax?: number;
  readonly idleShareMax?: number;
  readonly windowsToRelease?: number;
}

export interface ScaleInput {
  /** The scenario of one window; rate and accelerators are set for each window. */
  readonly scenario: Scenario;
  readonly gpus: number;
  /** Requests per second, by window. */
  readonly rates: readonly number[];
  /** Whether the simulator may search for the fewest accelerators. */
  readonly ask: boolean;
  readonly advice: { readonly badRateMax: number; readonly idleShareMax: number; readonly windowsToRelease: number };
}

/** The defaults that the schema declares. */
export const SCALE_DEFAULTS = {
  ...{ windowS: 20, ask: "simulator", badRateMax: 0.01, idleShareMax: 0.05, windowsToRelease: 2 },
} as const;

/** @throws {CommandError} as `readPlanFile`, and for every error of the scenario */
export async function readScaleInput(path: string, settings?: readonly string[]): Promise<ScaleInput> {
  const { document, origin, giveUpOn } = await readPlanFile<ScaleDocument>("scale", path, settings);
  const { rates, gpus, windowS, ask, badRateMax, idleShareMax, windowsToRelease } = document;
  const problems: Problem[] = [];
  const given = await scenarioOf(document, origin, problems);
  giveUpOn(problems);
  const duration = (given!.warmup + seconds(windowS ?? SCALE_DEFAULTS.windowS)) as Micros;
  return {
    // Changes over time in the scenario are dropped: they don't fit within a window. Accelerators are released only if
    // the policy uses as few as the load needs.
    scenario: { ...given!, prefer: given!.prefer ?? "accelerators", duration, phases: [] },
    gpus: gpus ?? given!.gpus,
    rates,
    ask: (ask ?? SCALE_DEFAULTS.ask) === "simulator",
    advice: {
      badRateMax: badRateMax ?? SCALE_DEFAULTS.badRateMax,
      idleShareMax: idleShareMax ?? SCALE_DEFAULTS.idleShareMax,
      windowsToRelease: windowsToRelease ?? SCALE_DEFAULTS.windowsToRelease,
    },
  };
}

async function scenarioOf(
  { scenario, set = {}, rates }: ScaleDocument,
  origin: string,
  problems: Problem[],
): Promise<Scenario | undefined> {
  const choice = Object.fromEntries(Object.entries(set).map(([axis, label]) => [axis, String(label)]));
  try {
    const read = await readScenario(join(dirname(origin), scenario), { choice, rateDefault: rates[0]! });
    if (read.arrivals.process !== "trace") return read;
    problems.push({
      path: ["scenario"],
      text: "a recorded trace has a rate of its own; give a scenario with a process",
    });
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    problems.push({ path: ["scenario"], text: error.message });
  }
  return undefined;
}
