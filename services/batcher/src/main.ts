import { createBatcher } from "@tutti/actors";
import { CTRL_FLOOR, MARGIN_SHARE, PER_ITEM_FLOOR_US, PER_KILOBYTE_FLOOR_US, runRole } from "@tutti/cli/role";

await runRole("batcher", ({ ports, config, options }, ready) => {
  const { policy, gather, latency, patience } = options;
  const delayFloors = { ctrl: CTRL_FLOOR, perItem: PER_ITEM_FLOOR_US, perKilobyte: PER_KILOBYTE_FLOOR_US };
  return createBatcher(
    ports,
    {
      ...config,
      policy,
      gather,
      latency,
      delayFloors,
      marginShare: MARGIN_SHARE,
      ...(patience !== undefined && { patience }),
    },
    ready,
  );
});
