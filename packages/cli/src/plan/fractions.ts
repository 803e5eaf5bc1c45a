import { ModelRegistry } from "@tutti/client/registries";
import { CommandError, EXIT } from "@tutti/admin";
import { type ClusterOptions, withCluster } from "@tutti/admin/cluster";
import { type FractionsInput, readFractionsInput } from "./fractions-input.ts";
import { type FractionsResult, runFractions } from "./fractions-plan.ts";
import { explainFractions, renderDivision, renderFractions } from "./fractions-text.ts";
import { readReport } from "./live.ts";
import { type LiveRates, type ServedModel, liveText, withLiveRates } from "./live-rates.ts";
import type { PlanFlags } from "./plan-file.ts";
import { deliver } from "./plan-output.ts";
import { fractionsPage } from "./plan-page.ts";

export interface FractionsFlags extends PlanFlags, ClusterOptions {
  /** Takes rates and SLOs from a running cluster. */
  readonly live?: boolean;
}

/** `tutti plan fractions <input.yaml>`: models that share accelerators in space. */
export async function planFractions(path: string, flags: FractionsFlags): Promise<void> {
  const given = await readFractionsInput(path, flags.set);
  const { input, live } = flags.live === true ? await liveInput(given, flags) : { input: given, live: undefined };
  const run = runFractions(input);
  const { result } = run;
  const told = live === undefined ? result : { ...result, live };
  deliver(flags, {
    result: told,
    text: () =>
      [renderFractions(result), ...renderDivision(result.division), ...remarksOn(input, live, result)].join("\n"),
    explain: () => explainFractions(input, run),
    page: () => fractionsPage(result),
  });
}

function remarksOn({ models }: FractionsInput, live: LiveRates | undefined, result: FractionsResult): string[] {
  if (live !== undefined) return ["", liveText(live, result)];
  const isUnasked = models.every(({ rate }) => rate === 0);
  return isUnasked ? ["", "Every rate is 0: fill them in, or take a running cluster's with --live."] : [];
}

/** @throws {CommandError} no planner has reported any rate */
function liveInput(
  input: FractionsInput,
  options: ClusterOptions,
): Promise<{ readonly input: FractionsInput; readonly live: LiveRates }> {
  return withCluster({ ...options, name: "tutti-plan" }, async ({ store }) => {
    const [report, listed] = await Promise.all([readReport(store), new ModelRegistry(store).list()]);
    if (report === undefined)
      throw new CommandError("no planner has told any rate yet: does one run? (`tutti actors`)", EXIT.unavailable);
    const rates = new Map(report.models.map(({ number, rate }) => [number, rate]));
    const served = listed.map(({ spec }): ServedModel => {
      return { name: spec.name, rate: rates.get(spec.number) ?? 0, sloMs: spec.slo / 1_000 };
    });
    return withLiveRates(input, served, Math.max(0, Math.round(Date.now() / 100 - report.at / 1e5) / 10));
  });
}
