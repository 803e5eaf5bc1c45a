import type { PlanFlags } from "./plan-file.ts";
import { deliver } from "./plan-output.ts";
import { subClustersPage } from "./plan-page.ts";
import { readSubClustersInput } from "./subclusters-input.ts";
import { runSubClusters } from "./subclusters-plan.ts";
import { explainSubClusters, renderSubClusters } from "./subclusters-text.ts";

/** `tutti plan subclusters <input.yaml>`: the sub-cluster of each model. */
export async function planSubclusters(path: string, flags: PlanFlags): Promise<void> {
  const input = await readSubClustersInput(path, flags.set);
  const run = runSubClusters(input);
  deliver(flags, {
    result: run.result,
    text: () => renderSubClusters(run.result),
    explain: () => explainSubClusters(input, run),
    page: () => subClustersPage(run.result),
  });
}
