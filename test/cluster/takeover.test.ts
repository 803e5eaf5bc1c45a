/**
 * Deaths and pauses of rankers, and lost messages between ranker, batcher and executor, under all checkers of
 * test/simulation (docs/architecture.md, 4).
 */
import {
  BatchDispatched,
  BatchRefused,
  CandidateOffered,
  GpuGranted,
  GrantAnswered,
  type MessageType,
  RankerAnnounced,
} from "@tutti/protocol";
import { type Micros, after, between, micros, millis, seconds } from "@tutti/units";
import { FrameReader, fromJson } from "@tutti/wire";
import { expect, test } from "vitest";
import type { Incarnation } from "../fixtures/actor-cluster/process.ts";
import { FAST_TIMEOUTS } from "../fixtures/actor-cluster/timeouts.ts";
import { Checkers } from "../simulation/checkers.ts";
import { Cluster } from "../simulation/cluster.ts";
import { type Plan, everyoneApart, planOf } from "../simulation/plan.ts";
import { StoryLog } from "../simulation/story-log.ts";
import type { Asked } from "../simulation/watcher.ts";

const FAST = { name: "fast", alphaUs: 1_000, betaUs: 4_000, sloMs: 50, batchSizeMax: 16, ratePerSecond: 0 };

/** A cluster without faults other than those that a test injects. */
class Stage extends Checkers {
  readonly cluster: Cluster;
  readonly #reader = new FrameReader();
  #sender: Incarnation | undefined;

  constructor(plan: Partial<Plan> = {}) {
    const usual = { ingresses: 1, batchers: 1, rankers: 2, executors: 2, gpusPerExecutor: 2, models: [FAST] };
    const calm = {
      hopUs: 50,
      hopJitterUs: 0,
      skewUsMax: 0,
      timeouts: FAST_TIMEOUTS,
      slowdownMax: 1,
      requestsMax: 10_000,
      actions: [],
      joiners: [],
    };
    const any: Plan = { ...planOf(8), ...usual, ...calm, policy: "deferred", gather: "target", ...plan };
    const whole: Plan = { ...any, grouping: everyoneApart(any) };
    super(whole, () => this.cluster.now, new StoryLog("silent"));
    this.cluster = new Cluster(whole, this);
    this.cluster.store.watch("tutti_leases", "", {
      onEntry: ({ key, value, revision }) => this.fence.leaseWritten(key, value, revision),
      onDelete: () => undefined,
      onReady: () => undefined,
      onFailure: () => undefined,
    });
    this.cluster.open();
    this.run(seconds(3));
  }

  override onSent(actor: Incarnation, subject: string, payload: Uint8Array, taken: boolean, isKept: boolean): void {
    super.onSent(actor, subject, payload, taken, isKept);
    if (!subject.includes(".to.") && !subject.includes(".all.")) return;
    this.#sender = actor;
    this.#reader.read(payload);
  }
  /** Calls back for each sent record of that type. */
  watch<T>(type: MessageType<T>, heard: (value: T, from: string) => void): void {
    this.#reader.on(type, (value) => heard(value, this.#sender!.slot));
  }

  run(duration: Micros): void {
    this.cluster.clock.advanceTo(after(this.cluster.now, duration));
    this.check();
  }
  /** Sends requests at an even rate while `duration` passes. */
  load(duration: Micros, { every = millis(2), sloMs = FAST.sloMs } = {}): Asked[] {
    const asked: Asked[] = [];
    for (let at = 0; at < duration; at += every)
      this.cluster.later(at, () => asked.push(this.cluster.ask(FAST, sloMs)));
    this.run(duration);
    return asked;
  }
  /** The ranker that grants now. */
  leader(): string {
    let leader = "";
    this.watch(GpuGranted, (_, from) => (leader = from));
    this.load(millis(60));
    this.run(millis(60));
    return leader;
  }
  /** Time from now until the next grant under a newer epoch. */
  nextGrant(): () => Micros | undefined {
    const since = this.cluster.now;
    let newest = 0;
    let took: Micros | undefined;
    this.watch(GpuGranted, ({ epoch }) => {
      if (newest === 0) newest = epoch;
      else if (epoch > newest) took ??= between(since, this.cluster.now);
    });
    return () => took;
  }
}

const notOk = (asked: readonly Asked[]): string[] =>
  asked.map(({ outcomes }) => outcomes.map((one) => one.status).join()).filter((status) => status !== "ok");

test("after the leader is killed the spare grants within a ping and a few hops, and nothing is lost", () => {
  const stage = new Stage({ policy: "eager" });
  const leader = stage.leader();
  const took = stage.nextGrant();
  const asked = stage.load(millis(20));
  stage.cluster.kill(leader);
  const [killedAt, before] = [stage.cluster.now, took()];
  asked.push(...stage.load(millis(200)));
  stage.run(millis(100));
  expect(before).toBe(undefined);
  // Pings every 10 ms here; the compare-and-set, the announcement and the grant take six hops.
  expect(took()! - 20_000).toBeLessThan(millis(13));
  expect(stage.cluster.now).toBeGreaterThan(killedAt);
  expect(notOk(asked)).toEqual([]);
  expect(stage.violations).toEqual([]);
});

test("a leader that is stopped by SIGTERM hands over: the spare grants at once, and nothing is lost or refused (T9)", () => {
  const stage = new Stage({ policy: "eager" });
  const leader = stage.leader();
  const took = stage.nextGrant();
  const asked = stage.load(millis(20));
  const { actor } = stage.cluster.running.get(leader)!;
  let ended = false;
  actor.drain(() => (ended = true));
  asked.push(...stage.load(millis(200)));
  stage.run(millis(100));
  expect(ended).toBe(true);
  expect(took()! - 20_000).toBeLessThan(millis(5));
  expect(notOk(asked)).toEqual([]);
  expect(stage.violations).toEqual([]);
});

test.for(["lives", "dies then"] as const)(
  "of two spares the first (they have run as long: the one of least key) follows a leader that is to stop, and alone asks for the lease; where it %s, the other does, soon",
  (fate) => {
    const stage = new Stage({ policy: "eager", rankers: 3 });
    const leader = stage.leader();
    const keyOf = (slot: string): number => stage.cluster.running.get(slot)!.actor.key;
    const spares = stage.cluster.slots.filter((slot) => slot.startsWith("ranker") && slot !== leader);
    const [first, second] = spares.toSorted((a, b) => keyOf(a) - keyOf(b));
    stage.load(millis(20));
    const since = stage.cluster.now;
    const grants: { readonly from: string; readonly after: Micros }[] = [];
    stage.watch(GpuGranted, (_, from) => grants.push({ from, after: between(since, stage.cluster.now) }));
    const asking = new Set<string>();
    const { store } = stage.cluster;
    const update = store.update.bind(store);
    store.update = (bucket, key, value, ...rest) => {
      if (key.startsWith("ranker")) asking.add(String((fromJson(value) as { ranker: number }).ranker));
      return update(bucket, key, value, ...rest);
    };
    stage.cluster.running.get(leader)!.actor.drain(() => undefined);
    if (fate === "dies then") stage.cluster.kill(first!);
    stage.load(millis(250));
    stage.run(millis(100));
    const follower = fate === "lives" ? first! : second!;
    const followed = grants.filter(({ from }) => from !== leader);
    expect(new Set(followed.map(({ from }) => from))).toEqual(new Set([follower]));
    expect(followed[0]!.after).toBeLessThan(fate === "lives" ? millis(5) : millis(100));
    expect([...asking]).toEqual([String(keyOf(follower))]);
    expect(stage.violations).toEqual([]);
  },
);

test("a leader that is to stop grants until it is followed: a store that no spare reaches stops no request (T9)", () => {
  const stage = new Stage({ policy: "eager" });
  const leader = stage.leader();
  const spares = stage.cluster.slots.filter((slot) => slot.startsWith("ranker") && slot !== leader);
  const cut = [{ from: new Set(spares), to: new Set(["store"]) }];
  stage.cluster.links.cut(cut);
  const since = stage.cluster.now;
  let endedAt = since;
  stage.cluster.running.get(leader)!.actor.drain(() => (endedAt = stage.cluster.now));
  const grants: { readonly from: string; readonly at: number }[] = [];
  stage.watch(GpuGranted, (_, from) => grants.push({ from, at: between(since, stage.cluster.now) }));
  const asked = stage.load(millis(60));
  expect(grants.length).toBeGreaterThan(10);
  expect(grants.every(({ from }) => from === leader)).toBe(true);
  stage.cluster.links.mend(cut);
  asked.push(...stage.load(millis(100)));
  stage.run(millis(100));
  // A standby looks at what is due every 20 ms. The leader leaves once it is followed, before its patience ends, and
  // its process may end 100 ms later.
  expect(grants.find(({ from }) => from !== leader)!.at).toBeLessThan(millis(85));
  expect(between(since, endedAt)).toBeLessThan(millis(90 + 100));
  const gaps = grants.map(({ at }, i) => at - (grants[i - 1]?.at ?? 0));
  expect(Math.max(...gaps)).toBeLessThan(millis(6));
  expect(notOk(asked)).toEqual([]);
  expect(stage.violations).toEqual([]);
});

test("a leader that is to stop grants until its successor says that it leads, not only until that has the lease (T9)", () => {
  const stage = new Stage({ policy: "eager" });
  const leader = stage.leader();
  const [successor] = stage.cluster.slots.filter((slot) => slot.startsWith("ranker") && slot !== leader);
  const { store, links } = stage.cluster;
  const update = store.update.bind(store);
  const cut = [{ from: new Set(["store"]), to: new Set([successor!]) }];
  let tookAt = NaN;
  const since = stage.cluster.now;
  store.update = (...asked) => {
    if (!asked[1].startsWith("ranker")) return update(...asked);
    // The lease is the standby's own, and it hears of that only 12 ms later.
    tookAt = between(since, stage.cluster.now);
    links.cut(cut);
    stage.cluster.later(millis(12), () => {
      links.mend(cut);
      stage.cluster.showHeld();
    });
    update(...asked);
  };
  stage.cluster.running.get(leader)!.actor.drain(() => undefined);
  const grants: { readonly from: string; readonly at: number }[] = [];
  stage.watch(GpuGranted, (_, from) => grants.push({ from, at: between(since, stage.cluster.now) }));
  const asked = stage.load(millis(60));
  stage.run(millis(100));
  const followedAt = grants.find(({ from }) => from === successor)!.at;
  expect(followedAt - tookAt).toBeGreaterThan(millis(8));
  expect(grants.filter(({ from, at }) => from === leader && at > tookAt + 1_000).length).toBeGreaterThan(2);
  expect(grants.some(({ from, at }) => from === leader && at > followedAt)).toBe(false);
  const gaps = grants.map(({ at }, i) => at - (grants[i - 1]?.at ?? 0));
  expect(Math.max(...gaps)).toBeLessThan(millis(6));
  expect(notOk(asked)).toEqual([]);
  expect(stage.violations).toEqual([]);
});

test.for(["SIGKILL", "SIGTERM"] as const)(
  "until it has the lease a successor hears of every accelerator and candidate: it grants in the moment in which it has it (%s)",
  (signal) => {
    const stage = new Stage({ policy: "eager", hopUs: 1_000, gpusPerExecutor: 8 });
    const leader = stage.leader();
    const since = stage.cluster.now;
    const { store } = stage.cluster;
    const update = store.update.bind(store);
    // Like a real one, the store takes longer than a message to another process and back. A standby that follows a
    // leader which goes on granting hears it out first, so in that case the store may be as fast as it likes.
    if (signal === "SIGKILL") store.update = (...asked) => stage.cluster.later(millis(2), () => update(...asked));
    let ledAt = NaN;
    stage.watch(RankerAnnounced, () => (ledAt = between(since, stage.cluster.now)));
    const grants: { readonly from: string; readonly at: Micros }[] = [];
    let refused = 0;
    stage.watch(GpuGranted, (_, from) => grants.push({ from, at: between(since, stage.cluster.now) }));
    stage.watch(BatchRefused, () => refused++);
    const often = { every: micros(250), sloMs: 100 };
    const asked = stage.load(millis(10), often);
    if (signal === "SIGKILL") stage.cluster.kill(leader);
    else stage.cluster.running.get(leader)!.actor.drain(() => undefined);
    asked.push(...stage.load(millis(60), often));
    stage.run(millis(200));
    expect(grants.find(({ from }) => from !== leader)!.at).toBe(ledAt);
    // The old leader's last grant may still be on its way when the new leader's grants are accepted.
    expect(refused).toBeLessThanOrEqual(signal === "SIGKILL" ? 0 : 1);
    expect(notOk(asked)).toEqual([]);
    expect(stage.violations).toEqual([]);
  },
);

test("a leader that was paused wakes to find itself deposed, and does not send one grant (T5)", () => {
  const stage = new Stage({ rankers: 3, policy: "eager", executors: 1, gpusPerExecutor: 1 });
  const leader = stage.leader();
  const { process } = stage.cluster.running.get(leader)!.in;
  // The leader is stopped while a candidate waits for an accelerator, which the leader could still grant when it wakes.
  let offers = 0;
  stage.watch(CandidateOffered, ({ batchSize }) => {
    if (batchSize > 1 && ++offers === 20) stage.cluster.later(100, () => (process.paused = true));
  });
  const asked = stage.load(millis(1_000), { sloMs: 3_000 });
  expect(process.paused).toBe(true);
  stage.watch(CandidateOffered, () => undefined);
  let stale = 0;
  stage.watch(GpuGranted, (_, from) => {
    if (from === leader) stale++;
  });
  process.wake(stage.cluster.now);
  asked.push(...stage.load(millis(200), { sloMs: 3_000 }));
  stage.run(millis(500));
  expect(stale).toBe(0);
  expect(notOk(asked)).toEqual([]);
  expect(stage.violations).toEqual([]);
});

test("a leader that stalls and is not missed grants on when it wakes", () => {
  const stage = new Stage({ rankers: 1 });
  const leader = stage.leader();
  const { process } = stage.cluster.running.get(leader)!.in;
  process.paused = true;
  stage.run(seconds(1));
  process.wake(stage.cluster.now);
  stage.run(millis(10));
  const asked = stage.load(millis(100));
  stage.run(millis(100));
  expect(notOk(asked)).toEqual([]);
  expect(stage.violations).toEqual([]);
});

type WatchOne = (stage: Stage, heard: () => void) => void;
const onGrant: WatchOne = (stage, heard) => stage.watch(GpuGranted, heard);
const onAnswer: WatchOne = (stage, heard) => stage.watch(GrantAnswered, heard);
const onBatch: WatchOne = (stage, heard) => stage.watch(BatchDispatched, heard);

for (const { what, from, to, onSent } of [
  { what: "a lost grant", from: "ranker", to: "batcher", onSent: onGrant },
  { what: "a lost answer to a grant", from: "batcher", to: "ranker", onSent: onAnswer },
  { what: "a lost batch", from: "batcher", to: "executor", onSent: onBatch },
]) {
  test(`${what} jams neither the accelerator nor the model`, () => {
    const stage = new Stage({ rankers: 1, executors: 1, gpusPerExecutor: 1 });
    stage.leader();
    let lost = 0;
    const slots = (role: string): Set<string> => new Set(stage.cluster.slots.filter((slot) => slot.startsWith(role)));
    const cut = [{ from: slots(from), to: slots(to) }];
    // Every message on that way is lost for 5 ms, from the first such message on.
    onSent(stage, () => {
      if (lost++ > 0) return;
      stage.cluster.links.cut(cut);
      stage.cluster.later(5_000, () => stage.cluster.links.mend(cut));
    });
    stage.load(millis(100), { every: millis(4) });
    expect(lost).toBeGreaterThan(0);
    stage.run(millis(150));
    const asked = stage.load(millis(200), { every: millis(4) });
    stage.run(millis(100));
    expect(notOk(asked)).toEqual([]);
    expect(stage.violations).toEqual([]);
  });
}

test("grants that arrive late, after they were given up, run nothing twice and jam nothing", () => {
  const late = { loss: 0, repeat: 0, late: 0.5, lateUsMax: 30_000 };
  const none = { ...late, late: 0 };
  const stage = new Stage({
    rankers: 1,
    executors: 1,
    gpusPerExecutor: 2,
    link: (from, to) => (from.startsWith("ranker") && to.startsWith("batcher") ? late : none),
  });
  stage.leader();
  stage.cluster.links.faulty = true;
  const during = stage.load(millis(500), { every: millis(4) });
  stage.cluster.links.heal();
  stage.run(millis(100));
  const asked = stage.load(millis(200), { every: millis(4) });
  stage.run(millis(100));
  expect(during.every(({ outcomes }) => outcomes.length === 1)).toBe(true);
  expect(notOk(asked)).toEqual([]);
  expect(stage.violations).toEqual([]);
});

test("a killed executor is noticed by probes, long before its time-out: what it held runs elsewhere in time", () => {
  const stage = new Stage({ policy: "eager" });
  const asked = stage.load(millis(100), { every: micros(2_500) });
  stage.cluster.kill("executor-0");
  asked.push(...stage.load(millis(100), { every: micros(2_500) }));
  stage.run(millis(200));
  expect(notOk(asked)).toEqual([]);
  expect(stage.violations).toEqual([]);
});
