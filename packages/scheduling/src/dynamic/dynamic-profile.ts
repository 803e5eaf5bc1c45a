/**
 * A ModelThread's profile of a model whose running time depends on its input: docs/algorithms.md, B, and the package's
 * README.
 *
 *   DP1. Requests are told apart by class: an application, or a range of size hints of one. An application that was
 *        never measured counts as the mixture of all.
 *   DP2. There are at most CLASSES classes: beyond, classes with similar means are merged.
 */
import {
  type BatchCosts,
  BatchLevels,
  type ClassLatency,
  type Histogram,
  isPoint,
  meanOf,
  mixtureOf,
  varianceOf,
} from "@tutti/dynamic";
import type { Micros } from "@tutti/units";

export interface AppProfile {
  /** Number of the application, as in requests. */
  readonly app: number;
  /** Its share of the arrivals; shares need not sum to 1. */
  readonly share: number;
  /** Running times of its requests run alone, µs. */
  readonly alone: Histogram;
  /** The same by ranges of the size hint, each up to and without `below`, ascending; the last one's is Infinity. */
  readonly byUnits?: readonly { readonly below: number; readonly share: number; readonly alone: Histogram }[];
}

export interface DynamicProfileOptions {
  readonly apps: readonly AppProfile[];
  readonly costs: BatchCosts;
  readonly batchSizeMax: number;
  readonly slo: Micros;
  /** b_τ in 1/µs. Default: 0.03/SLO to 1/SLO, by how much of the running times' variance the classes explain. */
  readonly chances?: number;
}

export interface DynamicProfile {
  /** Batches that are planned to end in time as likely as not (`likely`), and almost certainly (`certain`). */
  readonly likely: BatchLevels;
  readonly certain: BatchLevels;
  /** @param units - size hint; 0: none */
  classOf(app: number, units: number): number;
}

/**
 * Part of a request's value that is lost per SLO that it could still wait. The greater it is, the more the urgent go
 * first. Where classes predict a request's time, urgency is best served by a batch that fits. Where they don't, urgency
 * only makes batches smaller than is best, since the requests that would join last have time left. Chosen on 1 to 8
 * modes and SLOs of 1.5 to 5 × P99, hinted or not (dynamic-modes.yaml), and on tasks of which nothing is known
 * (dynamic-tasks.yaml); the package's README has figures.
 */
const CHANCES_PER_SLO = 0.03;
const CHANCES_PER_SLO_KNOWN = 0.97;
const CERTAINTY = 0.9;
const CLASSES = 16;
/** Batch sizes up to this are all candidates; beyond, each is an eighth larger than the one before. */
const DENSE = 16;

/** @returns undefined for a model whose requests all take equally long: a latency table describes it completely */
export function dynamicProfile(options: DynamicProfileOptions): DynamicProfile | undefined {
  const { apps, costs, slo } = options;
  const known = apps.flatMap(({ app, share, alone, byUnits }) =>
    byUnits === undefined
      ? [{ app, below: Infinity, share, alone }]
      : byUnits.map((range) => ({ app, below: range.below, share: range.share * share, alone: range.alone })),
  );
  if (known.length === 0 || areAllEqual(known)) return undefined;
  const groups = grouped(known);
  const classes: ClassLatency[] = groups.map((members) => ({
    share: members.reduce((sum, { share }) => sum + share, 0),
    alone: mixtureOf(members),
  }));
  // DP1: the class of unknown applications, for which no arrival is counted.
  if (groups.length > 1) classes.push({ share: 0, alone: mixtureOf(known) });
  const common = {
    classes,
    sizes: batchSizes(options.batchSizeMax),
    costs,
    chances: options.chances ?? chancesPerSlo(known) / slo,
  };
  const byApp = new Map<number, { below: number; index: number }[]>();
  for (const [index, members] of groups.entries())
    for (const { app, below } of members) {
      const ranges = byApp.get(app) ?? [];
      ranges.push({ below, index });
      byApp.set(app, ranges);
    }
  for (const ranges of byApp.values()) ranges.sort((a, b) => a.below - b.below);
  return {
    likely: new BatchLevels({ ...common, certainty: 0.5 }),
    certain: new BatchLevels({ ...common, certainty: CERTAINTY }),
    classOf: (app, units) => byApp.get(app)?.find(({ below }) => units < below)?.index ?? classes.length - 1,
  };
}

function areAllEqual([first, ...others]: readonly ClassLatency[]): boolean {
  const isSame = ({ alone }: ClassLatency): boolean => isPoint(alone) && alone.edges[0] === first!.alone.edges[0];
  return isPoint(first!.alone) && others.every(isSame);
}

const chancesPerSlo = (known: readonly ClassLatency[]): number =>
  CHANCES_PER_SLO + CHANCES_PER_SLO_KNOWN * knownShare(known);

/**
 * Fraction of the variance of running times that classes explain. 0: all requests look alike; 1: each class always
 * takes equally long.
 */
function knownShare(known: readonly ClassLatency[]): number {
  const total = known.reduce((sum, { share }) => sum + share, 0);
  const mean = known.reduce((sum, { share, alone }) => sum + (share / total) * meanOf(alone), 0);
  let between = 0;
  let within = 0;
  for (const { share, alone } of known) {
    between += (share / total) * (meanOf(alone) - mean) ** 2;
    within += (share / total) * varianceOf(alone);
  }
  return between + within > 0 ? between / (between + within) : 0;
}

/** Merges neighbours in order of their means into at most CLASSES groups (DP2). */
function grouped<Known extends ClassLatency>(known: readonly Known[]): Known[][] {
  const byMean = known.toSorted((a, b) => meanOf(a.alone) - meanOf(b.alone));
  const room = Math.ceil(byMean.length / CLASSES);
  const groups: Known[][] = [];
  for (let i = 0; i < byMean.length; i += room) groups.push(byMean.slice(i, i + room));
  return groups;
}

export function batchSizes(most: number): number[] {
  const sizes: number[] = [];
  for (let size = 1; size <= most; size += size < DENSE ? 1 : Math.ceil(size / 8)) sizes.push(size);
  if (sizes.at(-1)! < most) sizes.push(most);
  return sizes;
}
