/** `tutti plan`, as `tutti --help` lists it. */
import type { Command } from "commander";
import { usageError, didYouMean } from "@tutti/admin";
import { checkOutput } from "../present/output-file.ts";

const HELP = {
  subclusters: `
Models go to sub-clusters so that each carries the same rate and keeps the same memory, and few of them move. With was: for each model the plan
that there is counts, and budget: or budgetShare: bounds what its change may cost.`,
  pack: `
A stream is a model at one SLO. Nodes that a stream fills are its own; what remains takes turns on shared nodes. With rateBefore: the plan follows
from that of the epoch before, with as few loads as the new rates allow.`,
  fractions: `
Accelerators are whole or split in two. The plan takes the fewest that carry every model, says how many whole ones would be needed, and how many
by greedy best-fit; neighbours slow one another where interference: is given. \`tutti profile --interference --out\` writes such an input;
with --live its rates are those that a running cluster measures, and the plan says what to tell \`tutti split\`.`,
  scale: `
For each window of the forecast: what the advice makes of a simulated run with the accelerators that there are then, the fewest that the simulator
finds for that rate, and whether one less would do.`,
  query: `
A query is a request that goes through several models within one SLO. The split of its time takes the fewest executors for all stages together;
beside it the same in equal parts.`,
} as const;

const EXIT_CODES = `
Exit codes: 0 everything is served, 1 the plan leaves something out or breaks a bound (it is printed all the same), 2 wrong usage.
Inputs are described in docs/planning.md; test/bench/plans has examples.`;

const LIVE = `
With --live: which sub-cluster has which model and accelerator now, where they go next, and why; how many accelerators the load needs.
Exit codes: 0 every model has a place, 1 some are left out, 2 wrong usage, 3 no cluster reached.`;

/** @param toCluster - adds the options of every command that connects to a cluster */
export function addPlan(program: Command, toCluster: (command: Command) => Command): void {
  const plan = toCluster(program.command("plan"))
    .description(
      "plan a cluster offline: sub-clusters, packing, parts of accelerators, a query's time, how many are needed; or --live",
    )
    .option("--live", "show the plan that a running cluster follows, the next one, and their difference")
    .addHelpText("after", LIVE)
    .allowExcessArguments()
    .hook("preAction", (_, kind) => checkOutput(kind.opts<{ readonly html?: string }>().html))
    .action(async (options: { readonly live?: boolean; readonly json?: boolean }) => {
      const [what] = plan.args;
      if (what !== undefined) throw usageError(unknownPlan(what, plan));
      if (options.live !== true) return plan.help({ error: true });
      await (await import("./live.ts")).planLive(options);
    });
  common(plan.command("subclusters <input.yaml>"), HELP.subclusters)
    .description("which sub-cluster has which model")
    .action(async (path: string, options) => (await import("./subclusters.ts")).planSubclusters(path, options));
  common(plan.command("pack <input.yaml>"), HELP.pack)
    .description("which streams share an accelerator in time")
    .action(async (path: string, options) => (await import("./pack.ts")).planPack(path, options));
  toCluster(explained(plan.command("fractions <input.yaml>"), HELP.fractions))
    .option("--live", "rates and SLOs of a running cluster instead of those of the file")
    .description("which models share an accelerator in space, in parts of what sizes")
    .action(async (path: string, options) => (await import("./fractions.ts")).planFractions(path, options));
  common(plan.command("query <input.yaml>"), HELP.query)
    .description("how much of a query's time each of its stages may take")
    .action(async (path: string, options) => (await import("./query.ts")).planQuery(path, options));
  common(plan.command("scale <input.yaml>"), HELP.scale)
    .option("--workers <n>", "threads (default: one per core)")
    .description("how many accelerators, window after window of a forecast")
    .action(async (path: string, options) => (await import("./scale.ts")).planScale(path, options));
}

function unknownPlan(what: string, plan: Command): string {
  const names = plan.commands.map((command) => command.name());
  return `there is no plan "${what}"${didYouMean(what, names)}; plans are ${names.join(", ")}`;
}

const common = (command: Command, help: string): Command => explained(command, help).option("--json", "print JSON");

const explained = (command: Command, help: string): Command =>
  command
    .option("--explain", "say in words why everything is where it is")
    .option("--set <axis=value>", "choose on an axis of a family of inputs; again for each axis", collect)
    .option("--html <out.html>", "draw it: a page that needs nothing else")
    .addHelpText("after", `${help}\n${EXIT_CODES}`);

const collect = (value: string, before: readonly string[] = []): readonly string[] => [...before, value];
