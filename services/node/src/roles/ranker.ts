import { createRanker } from "@tutti/actors";
import { GRANT_CTRL_FLOOR, PING_EVERY, WARM_UP_EVERY, type StartRole } from "@tutti/host/role";

export const start: StartRole = ({ ports, config, options }, ready) =>
  createRanker(
    ports,
    {
      ...config,
      subCluster: options.subCluster,
      pingEvery: PING_EVERY,
      ctrlFloor: GRANT_CTRL_FLOOR,
      warmUpEvery: WARM_UP_EVERY,
    },
    ready,
  );
