/** Other people's schedulers, each documented against its paper, by the name that `--policy` takes. */
import type { SimClusterFactory } from "../simulated-cluster.ts";

/** From the text after the colon (`nexus:8` gives `8`) to a cluster; each throws an Error that says what its parameter may be. */
export const rivals: Readonly<Record<string, (parameter: string | undefined) => SimClusterFactory>> = {};
