/** Whole actors under overload, in virtual time: docs/architecture.md, T7; docs/algorithms.md, A12. */
import { type Instant, Prng, micros, millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { VirtualCluster } from "./virtual-cluster.ts";
import type { Asked, VirtualClusterOptions } from "./virtual-cluster-options.ts";

const MODEL = { name: "wide", alphaMs: 2, betaMs: 8, sloMs: 60, batchSizeMax: 16 };
const REFUSALS = ["TUTTI_OVERLOADED", "TUTTI_DEADLINE_INFEASIBLE"];

interface Stream {
  readonly app: string;
  readonly rate: number;
}

function serving(options: VirtualClusterOptions = {}): VirtualCluster {
  // Shares are of the model's capacity, so isolated runs, which measure run times, are off.
  const cluster = new VirtualCluster({ gpus: 2, policy: { kind: "adaptive" }, aloneShare: 0, ...options });
  cluster.addModel(MODEL);
  cluster.run(seconds(2));
  return cluster;
}

/** Poisson arrivals of several applications for `duration` seconds. @returns the requests of each */
function send(cluster: VirtualCluster, streams: readonly Stream[], duration: number): Asked[][] {
  const prng = new Prng(streams.length);
  const begin = cluster.clock.now();
  const next = streams.map(({ rate }) => prng.nextExponential(rate));
  const asked = streams.map((): Asked[] => []);
  for (;;) {
    const i = next.indexOf(Math.min(...next));
    if (next[i]! >= duration) break;
    cluster.clock.advanceTo(Math.round(begin + next[i]! * 1e6) as Instant);
    asked[i]!.push(cluster.ask(MODEL.name, { sloMs: MODEL.sloMs, app: streams[i]!.app }));
    next[i]! += prng.nextExponential(streams[i]!.rate);
  }
  cluster.clock.advanceTo((begin + duration * 1e6) as Instant);
  return asked;
}

const isInTime = ({ outcomes, deadline }: Asked): boolean => outcomes[0]?.status === "ok" && outcomes[0].at <= deadline;
const servedOf = (asked: readonly Asked[]): number => asked.filter(isInTime).length;
const since = (asked: readonly Asked[], begin: number): Asked[] => asked.filter(({ at }) => at >= begin);

/** The highest rate of which at most 1 % is refused. */
function goodput(): number {
  for (let rate = 800; rate > 400; rate -= 20) {
    const cluster = serving();
    const [asked] = send(cluster, [{ app: "a", rate }], 4);
    cluster.run(millis(200));
    if (servedOf(asked!) >= 0.99 * asked!.length) return rate;
  }
  throw new Error("no goodput");
}
const GOODPUT = goodput();

test("at ten times its goodput a cluster keeps it, refuses within 10 ms, and is itself again within a second of the end (T7)", () => {
  const cluster = serving();
  send(cluster, [{ app: "a", rate: GOODPUT / 2 }], 1);
  const begin = cluster.clock.now();
  const [flood] = send(cluster, [{ app: "a", rate: 10 * GOODPUT }], 4);
  const [after] = send(cluster, [{ app: "a", rate: GOODPUT / 2 }], 2);
  cluster.run(millis(200));
  for (const one of [...flood!, ...after!]) expect(one.outcomes.length).toBe(1);
  // Most requests of the first quarter of a second are refused late: the flood isn't known yet.
  const steady = since(flood!, begin + 250_000);
  expect(servedOf(steady) / 3.75).toBeGreaterThan(0.95 * GOODPUT);
  const refused = flood!.filter((one) => !isInTime(one));
  const late = refused.filter(({ at, outcomes }) => outcomes[0]!.at - at > 10_000);
  const lateLater = since(late, begin + 250_000);
  expect((late.length - lateLater.length) / refused.length).toBeLessThan(0.026);
  expect(lateLater.length / refused.length).toBeLessThan(0.008);
  for (const { outcomes } of refused) {
    expect(REFUSALS).toContain(outcomes[0]!.status);
    expect(outcomes[0]!.retryAfterMs).toBeGreaterThanOrEqual(1);
    expect(outcomes[0]!.retryAfterMs).toBeLessThanOrEqual(10_000);
  }
  // The median hint is about ten SLOs: one in ten requests is let in.
  const waits = steady.flatMap(({ outcomes }) => outcomes[0]!.retryAfterMs ?? []).sort((a, b) => a - b);
  expect(waits[waits.length >> 1]).toBeGreaterThan(5 * MODEL.sloMs);
  expect(waits[waits.length >> 1]).toBeLessThan(20 * MODEL.sloMs);
  const recovered = since(after!, begin + 5_000_000 - 1);
  expect(servedOf(recovered)).toBe(recovered.length);
});

test("ingresses hear of an overload as soon as it is known, whenever a flood begins", () => {
  for (let ms = 0; ms < 50; ms += 10) {
    const cluster = serving();
    send(cluster, [{ app: "a", rate: GOODPUT / 2 }], 1 + ms / 1_000);
    const [flood] = send(cluster, [{ app: "a", rate: 10 * GOODPUT }], 0.3);
    cluster.run(millis(200));
    const refused = flood!.filter((one) => one.outcomes[0]?.status === "TUTTI_OVERLOADED");
    const firstAt = (isByShare: boolean): number =>
      Math.min(...refused.flatMap(({ outcomes: [end] }) => (end!.text.includes("share") === isByShare ? end!.at : [])));
    // A period of at least 50 ms ends between them, and two hops.
    expect(firstAt(true) - firstAt(false)).toBeGreaterThan(0);
    expect(firstAt(true) - firstAt(false)).toBeLessThan(53_000);
  }
});

test("an application that floods takes neither its share nor its answers from another", () => {
  const cluster = serving();
  const usual = [
    { app: "steady", rate: 0.4 * GOODPUT },
    { app: "wild", rate: 0.4 * GOODPUT },
  ];
  send(cluster, usual, 2);
  const begin = cluster.clock.now();
  const [steady, wild] = send(cluster, [usual[0]!, { app: "wild", rate: 9 * GOODPUT }], 4);
  cluster.run(millis(200));
  const later = since(steady!, begin + 500_000);
  expect(servedOf(later)).toBeGreaterThan(0.93 * later.length);
  expect(servedOf(later) + servedOf(since(wild!, begin + 500_000))).toBeGreaterThan(0.95 * GOODPUT * 3.5);
});

test("the death of an executor under load is no overload: nobody is refused by shares", () => {
  const cluster = serving({ gpus: 4, executors: 4 });
  send(cluster, [{ app: "a", rate: GOODPUT }], 1);
  cluster.kill("executor-1");
  const [after] = send(cluster, [{ app: "a", rate: GOODPUT }], 2);
  cluster.run(millis(200));
  expect(after!.filter(({ outcomes }) => outcomes[0]?.text.includes("share"))).toEqual([]);
});

test("a burst that finds no leader for a moment is no flood: who asks after the takeover is served", () => {
  const cluster = new VirtualCluster({ gpus: 4, rankers: 1, policy: { kind: "eager" } });
  cluster.addModel({ name: "m", alphaMs: 1, betaMs: 4, sloMs: 100 });
  cluster.run(seconds(2));
  cluster.load("m", { rate: 20, duration: seconds(10), sloMs: 100 });
  const before = cluster.load("m", { rate: 400, duration: millis(60), sloMs: 100 });
  cluster.kill("ranker-0");
  const lost = cluster.load("m", { rate: 400, duration: millis(300), sloMs: 100 });
  cluster.startRanker("ranker-1");
  const after = cluster.load("m", { rate: 200, duration: seconds(1), sloMs: 100 });
  cluster.run(millis(300));
  const count = (asked: readonly Asked[], status: string): number =>
    asked.filter(({ outcomes }) => outcomes[0]?.status === status).length;
  expect(count(before, "ok")).toBeGreaterThan(15);
  expect(count(lost, "ok")).toBeLessThan(0.6 * lost.length);
  expect(after.length).toBeGreaterThan(150);
  expect(count(after.slice(20), "ok")).toBe(after.length - 20);
});

test("a batcher that dies in an overload leaves no shares behind", () => {
  const cluster = serving({ batchers: 2, hop: micros(50) });
  const begin = cluster.clock.now();
  send(cluster, [{ app: "a", rate: 5 * GOODPUT }], 1);
  cluster.kill("batcher-0");
  cluster.kill("batcher-1");
  cluster.startBatcher("batcher-2");
  cluster.run(seconds(2));
  const [after] = send(cluster, [{ app: "a", rate: GOODPUT / 2 }], 1);
  cluster.run(millis(200));
  expect(cluster.clock.now()).toBeGreaterThan(begin);
  expect(servedOf(after!)).toBeGreaterThan(0.97 * after!.length);
});
