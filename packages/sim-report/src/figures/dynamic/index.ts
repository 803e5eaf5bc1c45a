/** `tutti figures --dynamic`: models whose running time depends on the request. The paper is Orloj's. */
import type { Figure } from "../figure.ts";
import { printedLoads } from "./printed-loads.ts";
import { chances, hints, mixed, overhead } from "./sweeps.ts";
import { modes, peaks, staticModels, tasks } from "./tables.ts";

export const DYNAMIC_FIGURES: readonly Figure[] = [
  ...[modes, peaks, tasks, staticModels, printedLoads, mixed, hints, chances, overhead],
];
