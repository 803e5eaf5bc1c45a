import { createPlanner } from "@tutti/actors";
import { runRole } from "@tutti/cli/role";

await runRole("planner", ({ ports, config, options }, ready) =>
  createPlanner(ports, { ...config, epoch: options.epoch, budgetShare: options.budgetShare }, ready),
);
