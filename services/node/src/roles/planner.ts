import { createPlanner } from "@tutti/actors";
import { type StartRole } from "@tutti/cli/role";

export const start: StartRole = ({ ports, config, options }, ready) =>
  createPlanner(ports, { ...config, epoch: options.epoch, budgetShare: options.budgetShare }, ready);
