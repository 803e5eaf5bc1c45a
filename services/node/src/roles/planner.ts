import { createPlanner } from "@tutti/actors";
import { type StartRole } from "@tutti/host/role";

export const start: StartRole = ({ ports, config, options }, ready) =>
  createPlanner(
    ports,
    {
      ...config,
      epoch: options.epoch,
      budgetShare: options.budgetShare,
      subClustersMin: options.subClustersMin,
    },
    ready,
  );
