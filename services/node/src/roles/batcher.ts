import { createBatcher } from "@tutti/actors";
import { CTRL_FLOOR, MARGIN_SHARE, PER_ITEM_FLOOR_US, PER_KILOBYTE_FLOOR_US, type StartRole } from "@tutti/host/role";

export const start: StartRole = ({ ports, config, options }, ready) => {
  const { policy, prefer, gather, latency, patience } = options;
  const delayFloors = { ctrl: CTRL_FLOOR, perItem: PER_ITEM_FLOOR_US, perKilobyte: PER_KILOBYTE_FLOOR_US };
  return createBatcher(
    ports,
    {
      ...config,
      policy,
      prefer,
      gather,
      latency,
      delayFloors,
      marginShare: MARGIN_SHARE,
      ...(patience !== undefined && { patience }),
    },
    ready,
  );
};
