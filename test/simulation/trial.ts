/**
 * One seed: a cluster starts, faults come and go while requests arrive, then faults stop and service must come back.
 * Checkers run after every event.
 */
import { type Micros, Prng, after, micros, millis, seconds } from "@tutti/units";
import { Checkers } from "./checkers.ts";
import { Cluster, watchStore } from "./cluster.ts";
import { Faults } from "./faults.ts";
import { PLAIN, drawKind, patienceOf } from "./kinds.ts";
import { HELD_US_MAX } from "./parts.ts";
import { PIPELINE } from "./pipelines.ts";
import { coldStartMax, paceOf, plannedBound } from "./planners.ts";
import { type ModelPlan, type Plan, planOf } from "./plan.ts";
import { StoryLog } from "./story-log.ts";
import type { Violation } from "./violation.ts";
import type { Asked } from "./watcher.ts";

export interface TrialResult {
  readonly seed: number;
  /** Undefined: all is well. */
  readonly violation: Violation | undefined;
  /** Digest of every message, in order (T6). */
  readonly digest: string;
  readonly events: number;
  readonly asked: number;
  readonly ok: number;
  /** Time from the end of the faults until every model was served again. */
  readonly recovery: Micros;
  /** The last events; empty unless asked for. */
  readonly story: readonly string[];
}

/**
 * Time after the faults by which every model is served again: two time-outs of a peer, the second for a lease, and what
 * this adds to them. It covers an introduction that was lost, which is repeated every second.
 */
const LIVENESS_BOUND: Micros = seconds(2.3);
/**
 * Time by which a model that could not be served for a while accepts all requests again ("recovers within a second").
 */
const SHARES_BOUND: Micros = seconds(1);
/** Time after the faults by which every request sent under them must be answered. */
const SETTLED_US = 270_000;
/** SLO that is enough for a probe of any model while nothing is wrong. */
const PROBE_SLO_MS = 100;
/**
 * Time between the probes of two models, longer where runs are: deferred batches that fall due together have no slack
 * on one accelerator (A2), and probes that come alike each time would cost the same model its turn each time.
 */
const probeGapOf = ({ slow }: Plan): Micros => micros(Math.round(8_000 * (slow?.factor ?? 1)));

/** Runs a seed. A failing one can be run a second time with its story. */
export function runTrial(seed: number, story: "told" | "silent" = "silent", plan = planOf(seed)): TrialResult {
  const trial = new Trial(plan, story);
  trial.run();
  return trial.result();
}

/**
 * SLO of models in plans with nothing but SIGKILLs, and the time after which a SIGKILL has no effect any more. The
 * latter covers a takeover, a lease, and an introduction.
 */
const STRUCK_SLO_US = 150_000;
const TAKEN_OVER_US = 100_000;
/** Time by which a probe of a dead executor or batcher goes unanswered, and who would answer has heard of its death. */
const NOTICED_US = 25_000;

class Trial {
  readonly #plan: Plan;
  readonly #checkers: Checkers;
  readonly #cluster: Cluster;
  readonly #prng: Prng;
  readonly #faults: Faults;
  #recovery: Micros = micros(0);

  constructor(plan: Plan, story: "told" | "silent") {
    this.#plan = plan;
    this.#prng = new Prng(plan.seed + 1_000_003);
    const log = new StoryLog(story);
    const isHeld = (slot: string): boolean => this.#cluster.parts?.isHeld(slot) === true;
    this.#checkers = new Checkers(plan, () => this.#cluster.now, log, isHeld);
    this.#cluster = new Cluster(plan, this.#checkers);
    this.#faults = new Faults(plan, this.#cluster, this.#checkers);
    watchStore(this.#cluster, this.#checkers);
  }

  run(): void {
    try {
      this.#run();
    } catch (error) {
      this.#checkers.fail("T7", `the simulation does not go on: ${String(error)}`);
    }
  }

  #run(): void {
    const { durationUs } = this.#plan;
    this.#cluster.open();
    if (!this.#awaitService("a cluster that starts is served", 1)) return;
    this.#checkers.note(`faults begin: ${describe(this.#plan)}`);
    this.#cluster.links.faulty = true;
    this.#cluster.hostLinks.world.faulty = true;
    this.#cluster.engines.last = true;
    for (const { atUs, action } of this.#plan.actions) this.#cluster.later(atUs, () => this.#faults.perform(action));
    this.#startLoad(durationUs);
    if (!this.#advance(micros(durationUs))) return;
    this.#faults.stop();
    const stoppedAt = this.#cluster.now;
    if (!this.#awaitService("service comes back once faults stop", 2)) return;
    this.#recovery = micros(this.#cluster.now - stoppedAt);
    if (!this.#awaitReturns() || !this.#serveAll()) return;
    if (!this.#advance(micros(Math.max(20_000, stoppedAt + this.#settledUs - this.#cluster.now)))) return;
    // A process that stood still when its peer died begins to miss it when it goes on.
    const limit = after(this.#cluster.now, this.#plan.timeouts.actor.peerTimeout);
    while (this.#pending() !== undefined && this.#cluster.now < limit) if (!this.#advance(millis(10))) return;
    this.#checkRest();
  }

  result(): TrialResult {
    const { asked } = this.#cluster;
    return {
      seed: this.#plan.seed,
      violation: this.#checkers.violations[0],
      digest: this.#checkers.story.digest(),
      events: this.#checkers.story.events,
      asked: asked.length,
      ok: asked.filter((one) => one.outcomes[0]?.status === "ok").length,
      recovery: this.#recovery,
      story: this.#checkers.story.last(6000),
    };
  }

  /** Advances time with checks. @returns false as soon as something is wrong */
  #advance(duration: Micros): boolean {
    const end = after(this.#cluster.now, duration);
    const checkEvery = millis(20);
    while (this.#cluster.now < end) {
      const next = Math.min(end, after(this.#cluster.now, checkEvery));
      this.#cluster.clock.runUntil(() => this.#isBad, next as typeof end);
      if (this.#isBad) return false;
      this.#checkers.check();
    }
    return !this.#isBad;
  }
  get #settledUs(): number {
    return patienceOf(this.#plan) * SETTLED_US + coldStartMax(this.#plan);
  }
  get #livenessBound(): Micros {
    return micros(LIVENESS_BOUND + plannedBound(this.#plan) + 2 * this.#plan.timeouts.actor.peerTimeout);
  }
  get #isBad(): boolean {
    return this.#checkers.violations.length > 0;
  }

  /** Probes every model, as often as there are ingresses, until all are served so many times in a row. */
  #awaitService(what: string, rounds: number): boolean {
    const limit = after(this.#cluster.now, this.#livenessBound);
    let good = 0;
    while (good < rounds) {
      const probes: Asked[] = [];
      for (const model of this.#plan.models) {
        for (let i = 0; i < 2 * this.#plan.ingresses; i++) probes.push(this.#cluster.ask(model, PROBE_SLO_MS));
        if (!this.#advance(probeGapOf(this.#plan))) return false;
      }
      const isDone = (): boolean => probes.every(({ outcomes }) => outcomes.length > 0);
      const within = micros(millis(PROBE_SLO_MS + 100) + coldStartMax(this.#plan));
      this.#cluster.clock.runUntil(() => this.#isBad || isDone(), after(this.#cluster.now, within));
      if (this.#isBad) return false;
      good = this.#isServed(probes) ? good + 1 : 0;
      if (good === 0 && !this.#advance(millis(10))) return false;
      if (this.#cluster.now > limit) {
        this.#checkers.fail("liveness", `${what} within ${this.#livenessBound} µs, but: ${summary(probes)}`);
        return false;
      }
    }
    return true;
  }

  /**
   * Waits for the successors of leaving actors. Where both batchers were told to leave, requests wait until their
   * successors own the models. A run that hangs ends its process after the faults, and every actor in it.
   */
  #awaitReturns(): boolean {
    if (!this.#faults.isUnderWay) return true;
    const heldUs = this.#plan.hasParts === true ? HELD_US_MAX : 0;
    const limit = after(this.#cluster.now, micros(this.#livenessBound + heldUs));
    while (this.#faults.isUnderWay) {
      if (!this.#advance(millis(10))) return false;
      if (this.#cluster.now < limit) continue;
      this.#checkers.fail("liveness", `who was told to leave, or hung, is not back within ${this.#livenessBound} µs`);
      return false;
    }
    return this.#awaitService("service comes back once all have returned", 1);
  }

  /**
   * Whether each model has been served, and no request was lost on the way. A2 may refuse some of them on a cluster of
   * one accelerator: deferred batches of several models that fall due together have no slack.
   *
   * @param orElse - an outcome that counts like having been served
   */
  #isServed(asked: readonly Asked[], orElse: (one: Asked) => boolean = () => false): boolean {
    return (
      asked.every((one) => isDecided(one) || isWithItsIngress(one)) &&
      this.#plan.models.every(({ name }) => asked.some((one) => one.model === name && (isOk(one) || orElse(one))))
    );
  }

  /** Checks that light load is served when all is well. */
  #serveAll(): boolean {
    const limit = after(this.#cluster.now, SHARES_BOUND);
    for (;;) {
      const first = this.#cluster.asked.length;
      for (const model of this.#plan.models)
        for (let i = 0; i < 5; i++) this.#cluster.later(i * 10_000, () => this.#cluster.ask(model, PROBE_SLO_MS));
      if (!this.#advance(millis(PROBE_SLO_MS + 60))) return false;
      const asked = this.#cluster.asked.slice(first);
      if (this.#isServed(asked)) return true;
      // Admitted shares that an outage has cut recover within a second. Until then they may admit too few requests for
      // one to be served (`isServed`).
      const isShared = ({ outcomes }: Asked): boolean => outcomes[0]?.status === "TUTTI_OVERLOADED";
      if (this.#isServed(asked, isShared) && this.#cluster.now < limit) continue;
      this.#checkers.fail("liveness", `after service came back: ${summary(asked)}`);
      return false;
    }
  }

  /** Says which actor still waits for something; undefined: none does. */
  #pending(): string | undefined {
    const ingresses = [...this.#cluster.running.keys()].filter((slot) => slot.startsWith("ingress")).length;
    // An ingress sends warm-up requests to a model that moved, one at a time: they need not be over.
    const own = this.#plan.models.length * ingresses;
    for (const { incarnation } of this.#cluster.running.values()) {
      const { held = 0, outstanding = 0 } = incarnation.figures?.() ?? {};
      if (held > own) return `${incarnation.name} holds ${held} requests when all are answered`;
      if (outstanding > own) return `${incarnation.name} waits for ${outstanding} batches when all are done`;
    }
    return undefined;
  }

  /** T7, and T9 of a calm plan: nothing is pending when all is answered. */
  #checkRest(): void {
    const pending = this.#pending();
    if (pending !== undefined) this.#checkers.fail("T7", pending);
    if (this.#plan.struck) return this.#checkStruck();
    if (!this.#plan.calm) return;
    const bad = this.#cluster.asked.filter(({ at, outcomes }) => at >= this.#loadedAt && outcomes[0]?.status !== "ok");
    if (bad.length > 0) this.#checkers.fail("T9", `restarts cost ${bad.length} requests: ${summary(bad)}`);
  }
  #loadedAt = Infinity;

  /**
   * Checks T1 with nothing but deaths. Requests sent after a takeover are served, and no request that a living ingress
   * holds waits for its timer. (Those of a batch that died with its executor may be refused.)
   */
  #checkStruck(): void {
    const { actions } = this.#plan;
    const strikes = actions.map(({ atUs }) => this.#loadedAt + atUs);
    const isSteady = ({ at }: Asked): boolean =>
      strikes.every((struckAt) => at < struckAt - STRUCK_SLO_US || at > struckAt + TAKEN_OVER_US);
    // A request on its way to an ingress that died is lost with it, though the ingress never had it.
    const deathsOf = (role: string): number[] => strikes.filter((_, i) => this.#kills(actions[i]!, role));
    const [ingressDeaths, holderDeaths] = [deathsOf("ingress"), [...deathsOf("executor"), ...deathsOf("batcher")]];
    const diedUnderWay = ({ at, acceptedBy }: Asked): boolean =>
      acceptedBy === undefined && ingressDeaths.some((diedAt) => diedAt >= at && diedAt <= at + this.#plan.hopUs);
    const asked = this.#cluster.asked.filter(
      (one) => one.at >= this.#loadedAt && one.acceptedBy?.alive !== false && !diedUnderWay(one),
    );
    const refused = asked.filter((one) => isSteady(one) && !isOk(one));
    if (refused.length > 0)
      this.#checkers.fail("T1", `${refused.length} refused when all was taken over: ${summary(refused)}`);
    // A request at an executor or a batcher that is due before anybody can know of its death waits for the timer.
    const isDueUnnoticed = ({ at, slo }: Asked): boolean =>
      holderDeaths.some((diedAt) => diedAt <= at + slo && at + slo <= diedAt + NOTICED_US);
    const undecided = asked.filter((one) => !isDecided(one) && !isDueUnnoticed(one));
    if (undecided.length > 0)
      this.#checkers.fail("T1", `deaths left ${undecided.length} requests undecided: ${summary(undecided)}`);
  }

  /** Whether a kill ends an actor of the role: actors that share a process die together. */
  #kills({ action }: Plan["actions"][number], role: string): boolean {
    if (action.kind !== "kill") return false;
    const dying = this.#plan.grouping.processes.find(({ slots }) => slots.includes(action.slot))?.slots ?? [];
    return dying.some((slot) => slot.startsWith(role));
  }

  /** Open loop: requests don't wait for answers. */
  #startLoad(durationUs: number): void {
    this.#loadedAt = this.#cluster.now;
    const prng = this.#prng.fork();
    /** A generator of its own, so that plain requests come when they came. */
    const kinds = new Prng(this.#plan.seed * 1_009 + 31);
    this.#startPipelineLoad(durationUs);
    for (const [index, model] of this.#plan.models.entries()) {
      let at = 0;
      for (;;) {
        const { factor, untilUs } = paceOf(this.#plan, index, at);
        const next = factor === 0 ? untilUs : at + prng.nextExponential((factor * model.ratePerSecond) / 1e6);
        at = Math.min(next, untilUs);
        if (at >= durationUs) break;
        if (at === untilUs) continue;
        const sloMs =
          this.#plan.calm || this.#plan.struck ? model.sloMs : Math.ceil(model.sloMs * (0.7 + prng.nextFloat()));
        const kind = drawKind(this.#plan, kinds, sloMs);
        this.#cluster.later(Math.round(at), () => this.#cluster.ask(model, sloMs, kind));
      }
    }
  }

  #startPipelineLoad(durationUs: number): void {
    const { pipelined, seed } = this.#plan;
    if (pipelined === undefined) return;
    const { sloMs, ratePerSecond, cancelled } = pipelined;
    const prng = new Prng(seed * 1_013 + 53);
    for (let at = 0; ;) {
      at += prng.nextExponential(ratePerSecond / 1e6);
      if (at >= durationUs) return;
      const kind = prng.nextFloat() < cancelled ? { ...PLAIN, cancelledAt: prng.nextFloat() } : PLAIN;
      this.#cluster.later(Math.round(at), () => this.#cluster.ask({ name: PIPELINE }, sloMs, kind));
    }
  }
}

const DECIDED = ["ok", "TUTTI_OVERLOADED", "TUTTI_DEADLINE_INFEASIBLE"];
const isDecided = ({ outcomes }: Asked): boolean => DECIDED.includes(outcomes[0]?.status ?? "");
/** A run that hung while there were faults may end its process, and an ingress in it, after them. */
const isWithItsIngress = ({ acceptedBy, outcomes }: Asked): boolean =>
  outcomes.length === 0 && acceptedBy?.alive === false;
const isOk = ({ outcomes }: Asked): boolean => outcomes[0]?.status === "ok";
const summary = (asked: readonly Asked[]): string =>
  asked.map(({ id, model, outcomes }) => `request ${id} of ${model}: ${outcomes[0]?.status ?? "nothing"}`).join(", ");

function describe({ models, actions, link: _, ...plan }: Plan): string {
  const names = models.map((model: ModelPlan) => JSON.stringify(model)).join(" ");
  return `${JSON.stringify(plan)} ${names} ${actions.length} actions`;
}
