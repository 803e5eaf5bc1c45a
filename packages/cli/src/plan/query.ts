import type { PlanFlags } from "./plan-file.ts";
import { deliver } from "./plan-output.ts";
import { queryPage } from "./plan-page.ts";
import { readQueryInput } from "./query-input.ts";
import { runQuery } from "./query-plan.ts";
import { explainQuery, renderQuery } from "./query-text.ts";

/** `tutti plan query <input.yaml>`: the time budget of each stage of a query. */
export async function planQuery(path: string, flags: PlanFlags): Promise<void> {
  const input = await readQueryInput(path, flags.set);
  const result = runQuery(input);
  deliver(flags, {
    result,
    text: () => renderQuery(result),
    explain: () => explainQuery(input, result),
    page: () => queryPage(result),
  });
}
