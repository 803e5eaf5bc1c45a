/**
 * Static plans: frontends spread requests over the plan's places without coordination, and nodes drop early. Nexus-like
 * and gpulet-like schedulers differ in the plan alone.
 *
 * Source: Nexus (SOSP '19), §6.3 and docs/algorithms.md, C6. A new plan is made at the end of an epoch of 10 s in which
 * a stream's share left 0.8 to 1.1 times the planned one by more than three standard deviations of a Poisson count;
 * queued requests move to the places of the new plan.
 */
import { IndexedHeap } from "@tutti/collections";
import type { LatencyTable } from "@tutti/profile";
import { Prng } from "@tutti/units";
import type { SimRequest } from "../cluster/simulated-cluster.ts";
import { DeadlineRun } from "./deadline-run.ts";
import { type Baseline, type BaselineEngine, WAITING_MAX } from "./engine.ts";
import { gather, headOnly } from "./gathering.ts";
import { StreamIndex } from "./streams.ts";

const EPOCH = 10_000_000;
const SHARE_MIN = 0.8;
const SHARE_MAX = 1.1;

/** A stream on a node: its largest batch size, and the part of its rate that goes there, in any unit. */
export interface PlannedPlace {
  readonly stream: number;
  readonly batchSize: number;
  readonly rate: number;
  /** Latencies of its batches on that node. */
  readonly profile: LatencyTable;
}

/**
 * Makes a plan by node, which the engine calls an accelerator.
 * @param shares - of all requests, by stream; they sum to 1
 */
export type MakePlan = (streamIndex: StreamIndex, shares: ArrayLike<number>) => readonly (readonly PlannedPlace[])[];

interface Placement extends PlannedPlace {
  readonly node: number;
  readonly queue: DeadlineRun;
  readonly targetFor: () => number;
}

export interface NodeOptions {
  /** Default 1. */
  readonly frontends?: number;
  /**
   * Rule for dropping a head. Early (default): it can't wait for a batch of the planned size. Lazy: it can't run even
   * alone (Nexus, §6.3).
   */
  readonly drop?: "early" | "lazy";
}

interface Node {
  readonly placements: readonly Placement[];
  /** Index of the placement whose turn it is. */
  turn: number;
}

export class PlannedNodes implements Baseline {
  readonly #engine: BaselineEngine;
  readonly #streamIndex: StreamIndex;
  readonly #prng: Prng;
  readonly #frontends: number;
  readonly #drop: "early" | "lazy";
  readonly #makePlan: MakePlan;
  /** By frontend and stream: its placements, by the part of their rates that has been sent there. */
  #rounds: IndexedHeap[][] = [];
  #placements: Placement[][] = [];
  #nodes: Node[] = [];
  /** Proportions that the plan was made for; they sum to 1. */
  #planned: Float64Array;
  #counts: Float64Array;
  #epochEnd = Infinity;
  /** Nodes that may have something to run. */
  readonly #ready: number[] = [];

  constructor(engine: BaselineEngine, makePlan: MakePlan, { frontends = 1, drop = "early" }: NodeOptions = {}) {
    this.#engine = engine;
    this.#drop = drop;
    this.#makePlan = makePlan;
    this.#frontends = frontends;
    this.#streamIndex = new StreamIndex(engine.options.models);
    this.#prng = new Prng(engine.options.seed).fork();
    this.#counts = new Float64Array(this.#streamIndex.streams.length);
    this.#planned = Float64Array.from(this.#streamIndex.streams, ({ share }) => share);
    this.#plan();
  }

  arrived(request: SimRequest): void {
    const { now } = this.#engine;
    if (now >= this.#epochEnd) this.#endEpoch();
    else if (this.#epochEnd === Infinity) this.#epochEnd = now + EPOCH;
    const stream = this.#streamIndex.of(request);
    this.#counts[stream]!++;
    this.#route(request, stream);
  }

  accepts(node: number): void {
    this.#ready.push(node);
  }

  decide(): void {
    for (const node of this.#ready) if (this.#engine.accepting.get(node) === 0) this.#run(node);
    this.#ready.length = 0;
  }

  #route(request: SimRequest, stream: number): void {
    const frontend = this.#frontends === 1 ? 0 : this.#prng.nextInt(this.#frontends);
    const rounds = this.#rounds[frontend]![stream]!;
    const place = rounds.topKey;
    const placement = this.#placements[stream]![place]!;
    rounds.set(place, rounds.topPriority + 1 / placement.rate);
    if (placement.queue.size >= WAITING_MAX) return this.#engine.refuse(request, "overloaded");
    placement.queue.push(request);
    if (this.#engine.accepting.get(placement.node) === 0) this.#ready.push(placement.node);
  }

  /** Runs the next stream in turn that has a batch (C6). */
  #run(place: number): void {
    const engine = this.#engine;
    const node = this.#nodes[place]!;
    for (let i = 0; i < node.placements.length; i++) {
      const { queue, stream, batchSize, targetFor, profile } = node.placements[node.turn]!;
      node.turn = node.turn + 1 === node.placements.length ? 0 : node.turn + 1;
      const { model } = this.#streamIndex.streams[stream]!;
      const size = gather({ engine, queue, profile, targetFor, most: batchSize });
      if (size === 0) continue;
      engine.dispatch(place, model, queue.take(0, size), profile);
      return;
    }
  }

  #endEpoch(): void {
    this.#epochEnd = this.#engine.now + EPOCH;
    const total = this.#counts.reduce((sum, count) => sum + count, 0);
    const hasChanged = this.#counts.some((count, stream) => {
      const expected = total * this.#planned[stream]!;
      const isOutside = count < SHARE_MIN * expected || count > SHARE_MAX * expected;
      return isOutside && Math.abs(count - expected) > 3 * Math.sqrt(expected);
    });
    if (hasChanged) {
      // A stream without requests keeps a place: it counts as half a request an epoch.
      const known = this.#counts.map((count) => Math.max(count, 0.5));
      const sum = known.reduce((a, b) => a + b, 0);
      this.#planned = known.map((count) => count / sum);
      const waiting = this.#placements.flatMap((some) => some.flatMap(({ queue }) => queue.take(0, queue.size)));
      this.#plan();
      for (const request of waiting.toSorted((a, b) => a.id - b.id))
        this.#route(request, this.#streamIndex.of(request));
    }
    this.#counts.fill(0);
  }

  #plan(): void {
    this.#placements = this.#streamIndex.streams.map(() => []);
    this.#nodes = this.#makePlan(this.#streamIndex, this.#planned).map((places, node) => {
      const placements = places.map((place): Placement => {
        const targetFor = this.#drop === "lazy" ? headOnly : () => place.batchSize;
        return { ...place, node, queue: new DeadlineRun(), targetFor };
      });
      for (const placement of placements) this.#placements[placement.stream]!.push(placement);
      return { placements, turn: 0 };
    });
    this.#rounds = Array.from({ length: this.#frontends }, () => this.#placements.map((some) => this.#roundsOf(some)));
  }

  #roundsOf(placements: readonly Placement[]): IndexedHeap {
    // A stream without requests has no place in the plan.
    const rounds = new IndexedHeap(Math.max(1, placements.length));
    for (const [place, { rate }] of placements.entries()) {
      rounds.set(place, this.#frontends === 1 ? 0 : this.#prng.nextFloat() / rate);
    }
    return rounds;
  }
}
