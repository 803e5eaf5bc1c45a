/**
 * A batcher that is stopped while it holds grants and requests (docs/architecture.md, T5). It wakes when another
 * batcher owns its models.
 */
import { GpuGranted, RequestRefused } from "@tutti/protocol";
import { millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { FAST_TIMEOUTS } from "../fixtures/actor-cluster/timeouts.ts";
import { Checkers } from "./checkers.ts";
import { Cluster, watchStore } from "./cluster.ts";
import { type Plan, everyoneApart, planOf } from "./plan.ts";
import { StoryLog } from "./story-log.ts";

const MODEL = { name: "model-0", alphaUs: 800, betaUs: 2_000, sloMs: 400, batchSizeMax: 8, ratePerSecond: 0 };
const SIZES = { ingresses: 2, batchers: 2, rankers: 2, executors: 2 };
const PLAN: Plan = {
  ...planOf(1),
  ...SIZES,
  grouping: everyoneApart(SIZES),
  calm: true,
  struck: false,
  joiners: [],
  gpusPerExecutor: 2,
  models: [MODEL],
  policy: "eager",
  gather: "target",
  hopUs: 60,
  hopJitterUs: 0,
  skewUsMax: 0,
  timeouts: FAST_TIMEOUTS,
  link: () => ({ loss: 0, repeat: 0, late: 0, lateUsMax: 0 }),
  engine: { rows: 0, batch: 0, broken: 0 },
  slowdownMax: 1,
  requestsMax: 4_096,
  actions: [],
};

test.each([1, 5, 20, 99])(
  "stopped just before a grant comes and woken %i times a peer's time-out later, it sends no batch and refuses nobody",
  (times) => {
    const story = new StoryLog("told");
    const checkers: Checkers = new Checkers(PLAN, () => cluster.now, story);
    const cluster = new Cluster(PLAN, checkers);
    watchStore(cluster, checkers);
    cluster.open();
    cluster.clock.advanceBy(seconds(3));
    const term = checkers.fence.termOf(1);
    const [holder] = [...cluster.running].find(([, { incarnation }]) => incarnation.figures?.()["threads"] === 1)!;
    const { process } = cluster.running.get(holder)!.in;
    // Requests arrive, and the owner stops between its offer and the grant.
    const asked = Array.from({ length: 6 }, () => cluster.ask(MODEL, MODEL.sloMs));
    const isGranted = (): boolean => story.last(1).some((line) => line.includes(`sends ${GpuGranted.name}`));
    expect(cluster.clock.runUntil(isGranted, (cluster.now + millis(20)) as typeof cluster.now)).toBe(true);
    process.paused = true;
    cluster.clock.advanceBy(millis((times * FAST_TIMEOUTS.actor.peerTimeout) / 1_000 + 50));
    expect(checkers.fence.termOf(1)).toBeGreaterThan(term);
    for (let i = 0; i < 4; i++) asked.push(cluster.ask(MODEL, MODEL.sloMs));
    process.wake(cluster.now);
    cluster.clock.advanceBy(millis(600));
    expect(checkers.violations).toEqual([]);
    expect(asked.map(({ outcomes }) => outcomes.map(({ status }) => status).join())).toEqual(asked.map(() => "ok"));
    const woken = story.last(100_000).filter((line) => line.includes(`${process.name}#`) && line.includes("sends"));
    expect(woken.filter((line) => line.includes(RequestRefused.name))).toEqual([]);
  },
);
