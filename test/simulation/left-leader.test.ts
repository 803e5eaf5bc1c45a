/**
 * A grant that comes from a leader that the model has left (PL2): the leader has not seen the placement yet, the
 * batcher has. Both directions: epochs of two sub-clusters have no order, so an older epoch gives no grant away.
 */
import { BatchDispatched, CandidateOffered, GpuGranted } from "@tutti/protocol";
import { type Micros, after, millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { FAST_TIMEOUTS } from "../fixtures/actor-cluster/timeouts.ts";
import { Checkers } from "./checkers.ts";
import { Cluster, watchStore } from "./cluster.ts";
import type { Placing } from "./placements.ts";
import { type Plan, everyoneApart, planOf } from "./plan.ts";
import { StoryLog } from "./story-log.ts";

const MODEL = { name: "model-0", alphaUs: 800, betaUs: 2_000, sloMs: 400, batchSizeMax: 8, ratePerSecond: 0 };
const SIZES = { ingresses: 1, batchers: 1, rankers: 2, executors: 2 };
const placedIn = (subCluster: string): Placing => ({ models: [subCluster], executors: ["main", "s1"] });
const planFrom = (first: string, last: string): Plan => ({
  ...planOf(1),
  ...SIZES,
  grouping: everyoneApart(SIZES),
  calm: true,
  struck: false,
  joiners: [],
  gpusPerExecutor: 1,
  models: [MODEL],
  policy: "eager",
  gather: "target",
  hopUs: 60,
  hopJitterUs: 0,
  skewUsMax: 0,
  timeouts: FAST_TIMEOUTS,
  placings: {
    subClusters: ["main", "s1"],
    first: placedIn(first),
    changes: [],
    last: placedIn(last),
    brief: undefined,
  },
  link: () => ({ loss: 0, repeat: 0, late: 0, lateUsMax: 0 }),
  engine: { rows: 0, batch: 0, broken: 0 },
  slowdownMax: 1,
  requestsMax: 4_096,
  actions: [],
});

test.each([
  ["main", "s1", "ranker-0"],
  ["s1", "main", "ranker-1"],
])("a grant of a leader that the model has left is declined, and its requests are served: %s to %s", (...move) => {
  const [first, last, ranker] = move;
  const plan = planFrom(first, last);
  const story = new StoryLog("told");
  const checkers: Checkers = new Checkers(plan, () => cluster.now, story);
  const cluster = new Cluster(plan, checkers);
  watchStore(cluster, checkers);
  cluster.open();
  cluster.clock.advanceBy(seconds(3));
  const until = (line: string, within: Micros): boolean =>
    cluster.clock.runUntil(() => story.last(1).some((one) => one.includes(line)), after(cluster.now, within));
  // The leader hears of placements later than the batcher.
  cluster.links.cut([{ from: new Set(["store"]), to: new Set([cluster.processOf(ranker)]) }]);
  const asked = Array.from({ length: 3 }, () => cluster.ask(MODEL, MODEL.sloMs));
  expect(until(`sends ${CandidateOffered.name}`, millis(20))).toBe(true);
  cluster.place(placedIn(last));
  expect(until(`sends ${GpuGranted.name}`, millis(20))).toBe(true);
  expect(story.last(1)[0]).toContain(`${ranker}#`);
  cluster.links.heal();
  cluster.showHeld();
  cluster.clock.advanceBy(millis(600));
  expect(checkers.violations).toEqual([]);
  expect(asked.map(({ outcomes }) => outcomes.map(({ status }) => status).join())).toEqual(asked.map(() => "ok"));
  expect(story.last(100_000).filter((line) => line.includes(`sends ${BatchDispatched.name}`))).not.toEqual([]);
});
