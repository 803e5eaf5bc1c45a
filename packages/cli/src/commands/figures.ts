import { fileURLToPath } from "node:url";
import {
  DYNAMIC_FIGURES,
  FIGURES,
  FULL,
  type Figure,
  type Point,
  QUICK,
  createBench,
  writeFigures,
} from "@tutti/sim-report/figures";
import type { Scenario } from "@tutti/simulator";
import { makeNamedFolder, usageError } from "@tutti/admin";
import { typedCommand } from "../present/output-file.ts";
import { Progress } from "../simulate/progress.ts";
import { readScenario, whole } from "@tutti/sim-report/scenarios";
import { StoredMixes } from "../simulate/stored-mixes.ts";
import { Sweep } from "../simulate/sweep.ts";

export interface FiguresOptions {
  readonly out: string;
  readonly only?: string;
  readonly quick?: boolean;
  /** Selects the figures of dynamic models instead of those of static ones. */
  readonly dynamic?: boolean;
  readonly resume?: boolean;
  readonly workers?: string;
  readonly scenarios?: string;
}

/** The shipped scenarios, beside this code in the repository. */
const SCENARIOS = fileURLToPath(new URL("../../../../test/bench/scenarios", import.meta.url));

/** `tutti figures --out <folder>`: redraws the papers' figures from simulations. */
export async function figures(options: FiguresOptions): Promise<void> {
  const chosen = chosenFigures(options.dynamic === true ? DYNAMIC_FIGURES : FIGURES, options.only);
  const workers = options.workers === undefined ? undefined : whole("--workers", options.workers, { min: 1, max: 512 });
  const scale = options.quick === true ? QUICK : FULL;
  const folder = options.scenarios ?? SCENARIOS;
  makeNamedFolder("--out", options.out, 0o777);
  const mixes = new StoredMixes(options.out, options.resume === true);
  const sweep = new Sweep({ ...(workers !== undefined && { workers }) });
  const progress = new Progress();
  let runs = 0;
  let done = 0;
  const show = (): void => progress.update({ done, total: chosen.length, note: `figures, ${runs} simulations` });
  const bench = createBench({
    scale,
    load: (point) => scenarioOf(folder, point),
    pool: {
      run: (scenario) => sweep.run(scenario),
      bound: (scenario) => sweep.bound(scenario),
      nonPreemptive: (scenario, clairvoyantRps) => sweep.nonPreemptive(scenario, clairvoyantRps),
    },
    mixes,
    onRun: (count) => {
      runs = count;
      show();
    },
  });
  const onFigure = ({ name }: Figure, files: readonly string[]): void => {
    done++;
    progress.end(); // the bar continues below the line
    process.stdout.write(`${name}: ${files.join(", ")}\n`);
    show();
  };
  show();
  try {
    await writeFigures({
      figures: chosen,
      bench,
      scale,
      folder: options.out,
      source: typedCommand(),
      resume: options.resume === true,
      onFigure,
    });
  } finally {
    progress.end();
    await sweep.close();
  }
  mixes.discard();
  process.stdout.write(`${options.out}/results.html\n`);
}

/** @throws {CommandError} that lists the figures */
function chosenFigures(all: readonly Figure[], only: string | undefined): readonly Figure[] {
  if (only === undefined) return all;
  const names = only.split(",").map((name) => name.trim());
  const unknown = names.find((name) => all.every((figure) => figure.name !== name));
  if (unknown !== undefined) {
    const known = all.map(({ name }) => name).join(", ");
    throw usageError(`--only: there is no figure '${unknown}'; there are ${known}`);
  }
  return all.filter(({ name }) => names.includes(name));
}

function scenarioOf(folder: string, point: Point): Promise<Scenario> {
  const { file, set = {}, policy, rate, load, gpus, seed, durationS } = point;
  const overrides = {
    policy,
    ...(rate !== undefined && { rate }),
    ...(load !== undefined && { load }),
    ...(gpus !== undefined && { gpus }),
    ...(seed !== undefined && { seed }),
    ...(durationS !== undefined && { durationS }),
  };
  return readScenario(`${folder}/${file}.yaml`, { choice: set, overrides });
}
