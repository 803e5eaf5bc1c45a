/** Measurements of a workload's systems, one trial of each in turn. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Contestant } from "./contestants.ts";
import { addTurns, inTurn, latencyOf, measureGoodput, median, rowOf, search } from "./goodput.ts";
import { type Entrant, type Stage, settingsOf, startAll, stopAll, turnsOf, warm } from "./lineup.ts";
import type { CostPoint, Row, SharePoint } from "./results.ts";
import { goodShare } from "./trials.ts";
import type { SystemName } from "./workloads.ts";

const LONE_PER_SECOND = 20;
const LONE_ROUNDS = 3;
const COST_RATES = [300, 1_500, 3_000];
const SHARES = [0.1, 0.3, 0.5, 0.7];
const REST_S = 5;
const IDLE_S = 10;

export async function measure(stage: Stage, systems: readonly SystemName[]): Promise<Row[]> {
  switch (stage.workload.measure) {
    case "goodput":
      return measureGoodput(stage, systems);
    case "lone":
      return inGroups(stage, leastWaits(stage, systems), (all) => measureLone(stage, all));
    case "cost":
      return inGroups(stage, knownSettings(stage, systems), (all) => measureCost(stage, all));
    case "share":
      return together(stage, knownSettings(stage, systems), (all) => measureShare(stage, all));
    case "idle":
      return together(stage, knownSettings(stage, systems), (all) => measureIdle(stage, all));
  }
}

/** Entrants with the least wait: waiting for company only adds latency to a lone request. */
function leastWaits({ workload }: Stage, systems: readonly SystemName[]): Entrant[] {
  return systems.map((name) => ({ name, setting: settingsOf(name, workload)[0]! }));
}

/** Entrants with the setting that carried most of this model, or else the middle one. */
function knownSettings({ workload, known }: Stage, systems: readonly SystemName[]): Entrant[] {
  return systems.map((name) => {
    const settings = settingsOf(name, workload);
    return { name, setting: known.get(name)?.setting ?? settings[1] ?? settings[0]! };
  });
}

/** Starts all entrants, measures, and stops all. */
async function together(
  stage: Stage,
  entrants: readonly Entrant[],
  take: (contestants: readonly Contestant[]) => Promise<Row[]>,
): Promise<Row[]> {
  const contestants = await startAll(stage, entrants);
  try {
    const rows = await take(contestants);
    await addTurns(rows, contestants);
    return rows;
  } finally {
    await stopAll(contestants);
  }
}

/** Measures the group of systems that may run side by side, and then the other groups. */
async function inGroups(
  stage: Stage,
  entrants: readonly Entrant[],
  take: (contestants: readonly Contestant[]) => Promise<Row[]>,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (const group of turnsOf(entrants)) rows.push(...(await together(stage, group, take)));
  return rows;
}

async function measureLone(stage: Stage, contestants: readonly Contestant[]): Promise<Row[]> {
  for (const one of contestants) await warm(stage, one);
  const found = await inTurn(stage, contestants, LONE_ROUNDS, () => LONE_PER_SECOND);
  return contestants.map((one) => {
    const reports = found.get(one)!;
    const lag = { lagP50Ms: median(reports.map((r) => r.lagP50Ms)), lagP99Ms: median(reports.map((r) => r.lagP99Ms)) };
    return { ...rowOf(one), lone: { ...latencyOf(reports), ...lag } };
  });
}

async function measureCost(stage: Stage, contestants: readonly Contestant[]): Promise<Row[]> {
  for (const one of contestants) await warm(stage, one);
  const points = new Map(contestants.map((one): [Contestant, CostPoint[]] => [one, []]));
  for (const perSecond of COST_RATES)
    for (const [one, own] of points) {
      if (own.at(-1)?.isOverloaded === true) continue;
      const offer = { perSecond, seconds: stage.seconds, giveUp: "overloaded" } as const;
      const { report, cpuUs, cpuByProcess } = await stage.trials.offer(one, offer);
      const each = (us: number): number => Math.round(us / report.offered);
      const byProcess = Object.fromEntries(Object.entries(cpuByProcess).map(([name, us]) => [name, each(us)]));
      const good = round(goodShare(report), 4);
      own.push({ perSecond, cpuUs: each(cpuUs), good, byProcess, isOverloaded: report.gaveUp });
    }
  return contestants.map((one) => ({ ...rowOf(one), cost: points.get(one)! }));
}

async function measureShare(stage: Stage, contestants: readonly Contestant[]): Promise<Row[]> {
  const bare = contestants.find(({ name }) => name === "bare");
  const own = contestants.filter((one) => one !== bare);
  const unknown = new Map<Contestant, number>();
  for (const one of contestants) {
    const cold = await warm(stage, one);
    if (one !== bare && !stage.known.has(one.name))
      unknown.set(one, await stage.trials.fineRamp(one, cold, stage.seconds));
  }
  const searched = await search(stage, unknown);
  const points = new Map(own.map((one): [Contestant, SharePoint[]] => [one, []]));
  for (const share of SHARES)
    for (const one of own) {
      const goodput = searched.get(one)?.goodput ?? stage.known.get(one.name)!.goodput;
      const offer = { perSecond: Math.max(LONE_PER_SECOND, Math.round(share * goodput)), seconds: stage.seconds };
      const beside = bare === undefined ? undefined : await stage.trials.offer(bare, offer);
      const { report } = await stage.trials.offer(one, offer);
      const bareGood = beside === undefined ? {} : { bareGood: round(goodShare(beside.report), 4) };
      points.get(one)!.push({ share, perSecond: offer.perSecond, good: round(goodShare(report), 4), ...bareGood });
    }
  return own.map((one) => ({ ...rowOf(one), share: points.get(one)! }));
}

/** Measures all systems at once: the cost of each is that of its own processes. */
async function measureIdle(stage: Stage, contestants: readonly Contestant[]): Promise<Row[]> {
  stage.say(`lets all of them idle for ${IDLE_S} s`);
  await sleep(1_000 * REST_S);
  const before = new Map(contestants.map((one) => [one, one.processes.usage().cpuUs]));
  await sleep(1_000 * IDLE_S);
  return contestants.map((one) => {
    const corePercent = round((one.processes.usage().cpuUs - before.get(one)!) / (1e4 * IDLE_S), 2);
    const { bytes, kind } = one.processes.memory();
    return { ...rowOf(one), idle: { corePercent, memoryMb: Math.round(bytes / 1e6), memoryKind: kind } };
  });
}

function round(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}
