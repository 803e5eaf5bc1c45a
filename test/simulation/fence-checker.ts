/**
 * T4 and T5, checked on the messages. Grants come from the holder of the epoch, for accelerators of its sub-cluster. A
 * batch comes from the holder of its model's term, for a grant that it was given and that no batch used before. An
 * executor accepts one batch per grant, of its own incarnation, and never after validUntil. The batch's epoch is the
 * one that the executor joined last, and its grant was given since the executor came to that sub-cluster. Its sequence
 * and term are never older than accepted ones. An executor reports each batch once.
 */
import { type BatchDispatched, type BatchFinished, type GpuGranted, type GpuFreed, leaseKeys } from "@tutti/protocol";
import { type ActorKey, modelNumberOf } from "@tutti/units";
import { fromJson } from "@tutti/wire";
import type { Pull } from "../fixtures/actor-cluster/ports.ts";
import type { Incarnation } from "../fixtures/actor-cluster/process.ts";
import type { Plan } from "./plan.ts";
import { coldStartMax } from "./planners.ts";
import { hasLongFaults } from "./production-timeouts.ts";
import type { Report } from "./violation.ts";

/** Most batches at an accelerator at once: `acceptedMax` granted ones, and a probe. */
const RUNS_MAX = 5;
/** An accepted batch waits for others and for inputs that don't come, then runs. */
const RUN_US_MAX = 900_000;

/**
 * Longest time of a batch at the engine. It is that of a few runs before it, three times as long as planned, or a
 * deadline that ends the engine.
 */
const HUNG_US_MAX = 400_000;
/** Time for which an executor tries to write down in a store that is away which model ended it. */
const RECORD_US_MAX = 2_000_000;

/**
 * Most writes of one model's lease in a trial. A new owner keeps it for at least a peer's time-out, and batchers are
 * restarted a few times.
 */
const MOVES_MAX = 40;

interface Grant extends GpuGranted {
  /** When it was granted, in true time. */
  readonly givenAt: number;
  usedBy: string | undefined;
}
interface Accepted {
  readonly at: number;
  readonly actor: Incarnation;
  finished: boolean;
}
/** Grants and reports of one executor: newest epoch, sequences and terms that it accepted or promised to respect. */
interface Obeyed {
  epoch: number;
  /** When it first reported to a leader of another sub-cluster than before. */
  movedAt: number;
  /** When it last reported, and the newest epoch of each sub-cluster that it reported in that turn. */
  toldAt: number;
  readonly told: Map<string | undefined, number>;
  readonly sequences: Map<number, number>;
  readonly terms: Map<number, number>;
}

interface Untold {
  readonly at: number;
  readonly epoch: number;
  readonly obeyed: Obeyed;
  readonly says: (what: string) => void;
}

export class FenceChecker {
  readonly #report: Report;
  readonly #now: () => number;
  readonly #hasLongFaults: boolean;
  /** Inputs of a request that may wait for a cold start are waited for as long as its batch may start. */
  readonly #coldStartMax: number;
  readonly #rankerOf = new Map<number, ActorKey>();
  readonly #subClusterOf = new Map<number, string>();
  readonly #batcherOf = new Map<string, ActorKey>();
  readonly #termOf = new Map<number, number>();
  readonly #moves = new Map<number, number>();
  readonly #grants = new Map<string, Grant>();
  readonly #batches = new Map<string, BatchDispatched>();
  readonly #accepted = new Map<string, Accepted>();
  readonly #obeyed = new Map<ActorKey, Obeyed>();
  /**
   * Batches accepted under an epoch that their executor has not reported yet. A woken executor reads a new leader's
   * announcement and its batch in one turn, and its own report leaves at the turn's end.
   */
  readonly #untold = new Set<Untold>();
  readonly #running = new Map<string, number>();
  /** Runs in the order in which they were given to their engines. */
  readonly #runs = new Set<{ readonly actor: Incarnation; readonly gpu: number; readonly since: number }>();
  readonly #drivers = new Map<number, Incarnation>();

  constructor(report: Report, now: () => number, plan: Plan) {
    this.#report = report;
    this.#now = now;
    this.#hasLongFaults = hasLongFaults(plan);
    this.#coldStartMax = coldStartMax(plan);
  }

  /** A lease as the store has it, at the moment of the write. */
  leaseWritten(key: string, value: Uint8Array, revision: number): void {
    const lease = fromJson(value) as { ranker?: ActorKey; batcher?: ActorKey };
    if (lease.ranker !== undefined) {
      this.#rankerOf.set(revision, lease.ranker);
      this.#subClusterOf.set(revision, key.slice(leaseKeys.ranker("").length));
    }
    const model = Number(key.slice(leaseKeys.model(0).length - 1));
    if (lease.batcher === undefined) return;
    const moves = (this.#moves.get(model) ?? 0) + 1;
    this.#moves.set(model, moves);
    if (moves > MOVES_MAX) this.#report("T7", `the lease of model ${model} is written ${moves} times`);
    this.#batcherOf.set(`${model}/${revision}`, lease.batcher);
    this.#termOf.set(model, revision);
  }
  /** Current term of a model's lease. */
  termOf(model: number): number {
    return this.#termOf.get(model) ?? 0;
  }
  /** Sub-cluster of the leader with that epoch. */
  subClusterOf(epoch: number): string | undefined {
    return this.#subClusterOf.get(epoch);
  }
  /** A term that the store has shown an executor. */
  termSeen(actor: Incarnation, model: number, term: number): void {
    raise(this.#of(actor.key).terms, model, term);
  }

  granted(actor: Incarnation, grant: GpuGranted): void {
    if (this.#rankerOf.get(grant.epoch) !== actor.key)
      this.#report("T5", `${actor.name} grants under epoch ${grant.epoch}, which it does not hold`);
    const id = grantId(grant);
    const before = this.#grants.get(id);
    if (before !== undefined && !this.#mayBeForgotten(actor, before, grant))
      this.#report("T5", `grant ${id} is given twice`);
    this.#grants.set(id, { ...grant, givenAt: this.#now(), usedBy: undefined });
  }

  /**
   * An accelerator that reports an older grant for a second is believed: batches for the newer ones were lost, and the
   * ranker uses their numbers again (StaleReports of packages/actors). They are over, and nobody has accepted them, or
   * they were for an executor that has a successor since: batches name their executor, and no other runs them.
   */
  #mayBeForgotten(ranker: Incarnation, { validUntil, executor, gpu, grantSeq }: Grant, grant: GpuGranted): boolean {
    const isOver = this.#now() + ranker.process.skew > validUntil;
    const wasAccepted = (this.#of(executor).sequences.get(gpu) ?? 0) >= grantSeq;
    return this.#hasLongFaults && isOver && (!wasAccepted || executor !== grant.executor);
  }

  dispatched(actor: Incarnation, batch: BatchDispatched): void {
    const id = `${actor.key}/${batch.batchId}`;
    if (this.#batches.has(id)) this.#report("T4", `${actor.name} numbers two batches ${batch.batchId}`);
    this.#batches.set(id, batch);
    const model = modelNumberOf(batch.thread);
    if (this.#batcherOf.get(`${model}/${batch.term}`) !== actor.key)
      this.#report(
        "T5",
        `${actor.name} sends a batch under term ${batch.term} of model ${model}, which it does not hold`,
      );
    const grant = this.#grants.get(grantId(batch));
    if (grant === undefined) return this.#report("T5", `batch ${batch.batchId} names a grant that nobody gave`);
    if (grant.usedBy !== undefined) this.#report("T5", `grant ${grantId(batch)} is used by two batches`);
    grant.usedBy = id;
    if (grant.thread !== batch.thread || grant.term !== batch.term || grant.executor !== batch.executor)
      this.#report("T5", `batch ${batch.batchId} of thread ${batch.thread} uses a grant of thread ${grant.thread}`);
    if (batch.sentAt > batch.validUntil)
      this.#report("T5", `batch ${batch.batchId} is sent after its grant's validity`);
    if (batch.startAt > batch.latest)
      this.#report("M4", `batch ${batch.batchId} is planned ${batch.startAt - batch.latest} µs after its latest start`);
  }

  /** An executor has accepted a batch, as the pull of its inputs shows. */
  accepted(actor: Incarnation, { batcher, batchId }: Pull): void {
    const id = `${batcher}/${batchId}`;
    const acceptance = `${actor.key} ${id}`;
    const isFirstPull = this.#accepted.get(acceptance)?.at !== this.#now();
    if (!isFirstPull) return;
    const batch = this.#batches.get(id);
    if (batch === undefined) return this.#report("T5", `${actor.name} runs batch ${id}, which nobody sent`);
    if (this.#accepted.has(acceptance)) this.#report("T4", `${actor.name} accepts batch ${batchId} a second time`);
    this.#accepted.set(acceptance, { at: this.#now(), actor, finished: false });
    const obeyed = this.#of(actor.key);
    const says = (what: string): void => this.#report("T5", `${actor.name} accepts batch ${batchId} ${what}`);
    if (batch.executor !== actor.key) says("of another incarnation");
    // An executor that reads in one turn that it moves and that it stays reports to both leaders. Its next batch shows
    // which of them it follows.
    if (obeyed.told.get(this.#subClusterOf.get(batch.epoch)) === batch.epoch) obeyed.epoch = batch.epoch;
    obeyed.told.clear();
    if (batch.epoch !== obeyed.epoch) this.#untold.add({ at: this.#now(), epoch: batch.epoch, obeyed, says });
    if ((this.#grants.get(grantId(batch))?.givenAt ?? 0) < obeyed.movedAt)
      says("that was granted before it came to this sub-cluster");
    const sequence = obeyed.sequences.get(batch.gpu) ?? 0;
    if (batch.grantSeq <= sequence) says(`of sequence ${batch.grantSeq} after ${sequence}`);
    const model = modelNumberOf(batch.thread);
    if (batch.term < (obeyed.terms.get(model) ?? 0)) says(`of term ${batch.term} after ${obeyed.terms.get(model)}`);
    if (this.#now() + actor.process.skew > batch.validUntil) says("after its grant's validity");
    raise(obeyed.sequences, batch.gpu, batch.grantSeq);
    raise(obeyed.terms, model, batch.term);
  }

  /**
   * An executor has reported to the leader of epoch e when it is free. It thereby promises to accept no grant of an
   * older epoch of its sub-cluster, and none of another sub-cluster.
   */
  promised(actor: Incarnation, { epoch }: Pick<GpuFreed, "epoch">): void {
    const obeyed = this.#of(actor.key);
    const [from, to] = [this.#subClusterOf.get(obeyed.epoch), this.#subClusterOf.get(epoch)];
    if (from !== undefined && from !== to) {
      obeyed.epoch = epoch;
      obeyed.movedAt = this.#now();
    }
    // Messages of one turn of the event loop leave by destination, not in the order in which they were sent.
    if (obeyed.toldAt < this.#now()) obeyed.told.clear();
    obeyed.toldAt = this.#now();
    obeyed.told.set(to, Math.max(obeyed.told.get(to) ?? 0, epoch));
    obeyed.epoch = Math.max(obeyed.epoch, epoch);
    for (const one of this.#untold)
      if (one.obeyed === obeyed && one.epoch === epoch && one.at === this.#now()) this.#untold.delete(one);
  }

  finished(actor: Incarnation, { batchId }: BatchFinished, batcher: ActorKey): void {
    const accepted = this.#accepted.get(`${actor.key} ${batcher}/${batchId}`);
    if (accepted === undefined) return this.#report("T4", `${actor.name} reports batch ${batchId}, which it never ran`);
    if (accepted.finished) this.#report("T4", `${actor.name} reports batch ${batchId} twice`);
    accepted.finished = true;
  }

  ran(actor: Incarnation, gpu: number, change: 1 | -1): void {
    const driver = this.#drivers.get(gpu);
    if (driver !== undefined && driver !== actor && driver.alive)
      this.#report("T4", `${actor.name} and ${driver.name} drive accelerator ${gpu}`);
    this.#drivers.set(gpu, actor);
    const id = `${actor.key}/${gpu}`;
    const running = (this.#running.get(id) ?? 0) + change;
    this.#running.set(id, running);
    if (running > RUNS_MAX) this.#report("T7", `${running} batches wait for accelerator ${gpu}`);
    if (change === 1) this.#runs.add({ actor, gpu, since: this.#now() });
    else for (const run of this.#runs) if (run.actor === actor && run.gpu === gpu) return void this.#runs.delete(run);
  }

  /**
   * T5: an executor accepts batches only of an epoch that it has reported. T4: an accepted batch runs and ends, or its
   * executor does.
   */
  check(): void {
    for (const { at, epoch, obeyed, says } of this.#untold)
      if (at < this.#now()) says(`of epoch ${epoch}, and has told ${obeyed.epoch} that it obeys it`);
    const hungUsMax = HUNG_US_MAX + (this.#hasLongFaults ? RECORD_US_MAX : 0);
    for (const run of this.#runs) {
      const { actor, gpu, since } = run;
      if (!actor.alive) this.#runs.delete(run);
      else if (!actor.paused && this.#now() > Math.max(since, actor.wokenAt) + hungUsMax)
        this.#report("T4", `a run on accelerator ${gpu} of ${actor.name} does not end, and nobody ends it`);
    }
    for (const [id, { at, actor, finished }] of this.#accepted) {
      if (finished || !actor.alive || actor.paused) continue;
      if (this.#now() > Math.max(at, actor.wokenAt) + RUN_US_MAX + this.#coldStartMax)
        this.#report("T4", `${actor.name} has accepted batch ${id} and never reported it`);
    }
  }

  #of(executor: ActorKey): Obeyed {
    let obeyed = this.#obeyed.get(executor);
    if (obeyed === undefined)
      this.#obeyed.set(
        executor,
        (obeyed = { epoch: 0, movedAt: 0, toldAt: 0, told: new Map(), sequences: new Map(), terms: new Map() }),
      );
    return obeyed;
  }
}

const grantId = ({ epoch, gpu, grantSeq }: { epoch: number; gpu: number; grantSeq: number }): string =>
  `${epoch}/${gpu}/${grantSeq}`;

function raise(map: Map<number, number>, key: number, value: number): void {
  if (value > (map.get(key) ?? 0)) map.set(key, value);
}
