/** Measures the highest rate that a system carries, and its latencies below that rate. */
import { choose, trySettings } from "./choice.ts";
import type { Contestant } from "./contestants.ts";
import { type Found, type Outcome, searchGoodput } from "./goodput-search.ts";
import { type Entrant, type Known, type Stage, labelOf, startAll, stopAll, turnsOf, warm } from "./lineup.ts";
import { type LoadReport, RATE_MAX, quantile } from "./load-plan.ts";
import type { Latency, Row } from "./results.ts";
import { goodShare } from "./trials.ts";
import type { SystemName } from "./workloads.ts";

const RATE_MIN = 20;
/** Where the search begins, as a share of the rate that the ramp carried: a rising rate overestimates what lasts. */
const FIRST_SHARE = 0.9;
/** Most trials of each contestant: on a noisy machine searches would go on for long. */
const SEARCH_TRIALS_MAX = 9;
const AT_SHARE = 0.7;
const AT_ROUNDS = 3;

export async function measureGoodput(stage: Stage, systems: readonly SystemName[]): Promise<Row[]> {
  const { finalists, behind } = choose(await trySettings(stage, systems));
  const rows: Row[] = [];
  for (const group of turnsOf(finalists)) rows.push(...(await measureGroup(stage, group)));
  for (const { name, setting, carried: goodput } of behind) {
    rows.push({ ...rowOf({ name, setting }), goodput, isEstimate: true });
    remember(stage, name, { goodput, setting });
  }
  return rows.sort((a, b) => systems.indexOf(a.system) - systems.indexOf(b.system));
}

async function measureGroup(stage: Stage, group: readonly Entrant[]): Promise<Row[]> {
  const contestants = await startAll(stage, group);
  try {
    const carried = new Map<Contestant, number>();
    for (const one of contestants) {
      const cold = await warm(stage, one);
      carried.set(one, await stage.trials.fineRamp(one, cold, stage.seconds));
    }
    const found = await search(stage, carried);
    const goodputs = new Map([...found].map(([one, { goodput }]) => [one, goodput]));
    const best = bestOfEach(goodputs);
    await stopAll(contestants.filter((one) => !best.includes(one)));
    const at70 = await inTurn(stage, best, AT_ROUNDS, (one) => AT_SHARE * goodputs.get(one)!, stage.seconds / 2);
    for (const one of best) remember(stage, one.name, { goodput: goodputs.get(one)!, setting: one.setting });
    const rows = best.map((one): Row => {
      const reports = at70.get(one)!;
      return { ...rowOf(one), ...found.get(one)!, at70: { ...latencyOf(reports), good: goodOf(reports) } };
    });
    await addTurns(rows, best);
    return rows;
  } finally {
    await stopAll(contestants);
  }
}

/** Remembers a result, so that other workloads of the same model start from it. */
function remember({ workload, known }: Stage, name: SystemName, found: Known): void {
  if (workload.name === "mlp") known.set(name, found);
}

/** The better one of each system's settings. */
function bestOfEach(goodputs: ReadonlyMap<Contestant, number>): Contestant[] {
  const bySystem = Map.groupBy(goodputs.keys(), ({ name }) => name);
  return [...bySystem.values()].map((own) =>
    own.reduce((best, one) => (goodputs.get(one)! > goodputs.get(best)! ? one : best)),
  );
}

export function rowOf({ name, setting }: Entrant): Row {
  const label = labelOf(name, setting);
  return { system: name, ...(label === undefined ? {} : { setting: label }) };
}

/** Adds what the systems' own event loops say of the trials; call it before they stop. */
export async function addTurns(rows: readonly Row[], contestants: readonly Contestant[]): Promise<void> {
  for (const row of rows) {
    const turns = await contestants.find(({ name }) => name === row.system)?.turns();
    if (turns !== undefined) row.turns = turns;
  }
}

export function search(stage: Stage, carried: ReadonlyMap<Contestant, number>): Promise<Map<Contestant, Found>> {
  const firsts = new Map([...carried].map(([one, perSecond]) => [one, FIRST_SHARE * perSecond]));
  const end = performance.now() + 1_000 * SEARCH_TRIALS_MAX * firsts.size * stage.seconds;
  const trial = (one: Contestant, perSecond: number): Promise<Outcome> =>
    stage.trials.hold(one, perSecond, stage.seconds);
  return searchGoodput(firsts, RATE_MAX, trial, () => performance.now() > end);
}

/** @returns the reports of each contestant, one per round */
export async function inTurn(
  stage: Stage,
  contestants: readonly Contestant[],
  rounds: number,
  rateOf: (one: Contestant) => number,
  seconds = stage.seconds,
): Promise<Map<Contestant, LoadReport[]>> {
  const reports = new Map(contestants.map((one): [Contestant, LoadReport[]] => [one, []]));
  for (let round = 0; round < rounds; round++)
    for (const one of contestants) {
      const perSecond = Math.max(RATE_MIN, Math.round(rateOf(one)));
      const { report } = await stage.trials.offer(one, { perSecond, seconds, seed: 7 + round });
      reports.get(one)!.push(report);
    }
  return reports;
}

/**
 * Medians over rounds of each round's quantiles: a single stall of the machine doesn't count as the system's latency.
 */
export function latencyOf(reports: readonly LoadReport[]): Latency {
  const ofRounds = (share: number): number => median(reports.map(({ latenciesMs }) => quantile(latenciesMs, share)));
  const requests = reports.reduce((total, { latenciesMs }) => total + latenciesMs.length, 0);
  return { p50Ms: ofRounds(0.5), p99Ms: ofRounds(0.99), requests };
}

const goodOf = (reports: readonly LoadReport[]): number => round(median(reports.map(goodShare)), 4);

export function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] ?? NaN;
}

function round(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}
