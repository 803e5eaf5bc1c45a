/** Other people's schedulers, each documented against its paper, by the name that `--policy` takes. */
import type { SimClusterFactory } from "../cluster/simulated-cluster.ts";
import { capped } from "./capped.ts";
import { clipper } from "./clipper.ts";
import { clockwork } from "./clockwork.ts";
import { eagerLeastLatest } from "./eager-least-latest.ts";
import { fractions } from "./fractions.ts";
import { knowsLengths } from "./knows-lengths.ts";
import { nexus } from "./nexus.ts";
import { orloj } from "./orloj.ts";
import { shepherd } from "./shepherd.ts";
import { triton } from "./triton.ts";

/**
 * From the text after the colon (`nexus:8` gives `8`) to a cluster; each throws an Error that says what its parameter
 * may be.
 */
export const baselines: Readonly<Record<string, (parameter: string | undefined) => SimClusterFactory>> = {
  clockwork,
  nexus,
  fractions,
  shepherd,
  clipper,
  triton,
  capped,
  "eager-least-latest": eagerLeastLatest,
  orloj,
  "knows-lengths": knowsLengths,
};
