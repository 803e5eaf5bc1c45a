import { createRanker } from "@tutti/actors";
import { GRANT_CTRL_FLOOR, PING_EVERY, REHEARSE_EVERY, runRole } from "@tutti/cli/role";

await runRole("ranker", ({ ports, config, options }, ready) =>
  createRanker(
    ports,
    {
      ...config,
      subCluster: options.subCluster,
      pingEvery: PING_EVERY,
      ctrlFloor: GRANT_CTRL_FLOOR,
      rehearseEvery: REHEARSE_EVERY,
    },
    ready,
  ),
);
