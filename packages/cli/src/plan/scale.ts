import { Progress } from "../simulate/progress.ts";
import { whole } from "@tutti/sim-report/scenarios";
import { Sweep } from "../simulate/sweep.ts";
import type { PlanFlags } from "./plan-file.ts";
import { deliver } from "./plan-output.ts";
import { scalePage } from "./plan-page.ts";
import { readScaleInput } from "./scale-input.ts";
import { runScale } from "./scale-plan.ts";
import { explainScale, renderScale } from "./scale-text.ts";

export interface ScaleFlags extends PlanFlags {
  readonly workers?: string;
}

/** `tutti plan scale <input.yaml>`: the number of accelerators for each window of a forecast. */
export async function planScale(path: string, flags: ScaleFlags): Promise<void> {
  const workers = flags.workers === undefined ? undefined : whole("--workers", flags.workers, { min: 1, max: 512 });
  const input = await readScaleInput(path, flags.set);
  await using sweep = new Sweep({ ...(workers !== undefined && { workers }) });
  const progress = new Progress();
  try {
    const result = await runScale(input, {
      run: (scenario) => sweep.run(scenario),
      onStep: (step) => progress.update(step),
    });
    progress.end();
    deliver(flags, {
      result,
      text: () => renderScale(input, result),
      explain: () => explainScale(input, result),
      page: () => scalePage(result),
    });
  } finally {
    progress.end();
  }
}
