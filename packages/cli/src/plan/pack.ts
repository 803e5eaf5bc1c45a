import { explainPack, renderPack } from "./pack-text.ts";
import { readPackInput } from "./pack-input.ts";
import { runPack } from "./pack-plan.ts";
import type { PlanFlags } from "./plan-file.ts";
import { packPage } from "./plan-page.ts";
import { deliver } from "./plan-output.ts";

/** `tutti plan pack <input.yaml>`: streams that share accelerators in time. */
export async function planPack(path: string, flags: PlanFlags): Promise<void> {
  const input = await readPackInput(path, flags.set);
  const run = runPack(input);
  deliver(flags, {
    result: run.result,
    text: () => renderPack(input, run.result),
    explain: () => explainPack(input, run),
    page: () => packPage(input, run.result),
  });
}
