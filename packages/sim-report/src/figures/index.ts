import { accelerators, fewestAccelerators } from "./accelerators.ts";
import { batchingEffect } from "./batching-effect.ts";
import { bestBaseline } from "./best-baseline.ts";
import { changingDay } from "./changing-day.ts";
import { batchSizes, queueDelays } from "./distributions.ts";
import type { Figure } from "./figure.ts";
import { goals } from "./goals.ts";
import { grid } from "./grid.ts";
import { busyByLoad, goodByLoad } from "./load.ts";
import { network } from "./network.ts";
import { policies } from "./policies.ts";
import { randomMixes, randomMixesOfParts } from "./random-mixes.ts";
import { slo } from "./slo.ts";
import { timeouts } from "./timeouts.ts";
import { frontends, zoos } from "./zoos.ts";

/** In the order of a results page, the cheap ones first. */
export const FIGURES: readonly Figure[] = [
  ...[goals, batchSizes, queueDelays, goodByLoad, busyByLoad, changingDay, batchingEffect, timeouts],
  ...[zoos, frontends, policies, fewestAccelerators, network, slo, bestBaseline, accelerators, grid],
  ...[randomMixes, randomMixesOfParts],
];

export { DYNAMIC_FIGURES } from "./dynamic/index.ts";
export { createBench } from "./bench.ts";
export type { BenchOptions, MixStore, Pool } from "./bench.ts";
export { FULL, QUICK } from "./figure.ts";
export type { Bench, Figure, Point, Scale } from "./figure.ts";
export { writeFigures } from "./results.ts";
