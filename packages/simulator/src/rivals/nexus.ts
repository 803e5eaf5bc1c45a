/**
 * Nexus-like: a plan per epoch, frontends that spread requests without a word to one another, nodes that drop early.
 *
 * Source: Shen et al., SOSP '19: §6.1 (squishy bin packing, here nexus-plan.ts), §6.3 (batch-aware dispatch, early drop);
 * docs/algorithms.md, C1 to C3 and C6; Symphony v2, §2.2 (epochs of 10 s; a node runs its models round robin, eagerly; "either
 * runs with the actual smaller batch size or drops excess requests"), §5.1 (one and eight frontends).
 * Same: a session is a (model, SLO); a frontend looks its sessions' accelerators up in the plan and goes round them in
 *   proportion to their planned rates; a node takes its sessions in turn, an empty one costs nothing, drops heads that can't
 *   wait for a batch of the planned size, and never runs a larger one.
 * Chosen: the accelerators are given, so the plan is that of the largest total rate that they carry, in the proportions
 *   of the scenario; spare accelerators repeat the fullest nodes. A new plan is made at the end of an epoch in which a
 *   session's share left 0.8 to 1.1 times the planned one by more than three standard deviations of a Poisson count; it is
 *   made from nothing (C4's incremental form only saves loading times, which are not simulated), and queued requests go
 *   where it says. A load balancer gives each request to a frontend at random; each starts its rounds somewhere else.
 *   `nexus:8` has eight frontends, `nexus` one.
 */
import { IndexedHeap } from "@tutti/collections";
import { Prng } from "@tutti/units";
import type { SimClusterFactory, SimRequest } from "../simulated-cluster.ts";
import { DeadlineRun } from "./deadline-run.ts";
import { type Rival, RivalEngine, WAITING_MAX } from "./engine.ts";
import { gather } from "./gathering.ts";
import { type Load, fillNodes } from "./nexus-plan.ts";
import { numberParameter } from "./parameter.ts";
import { StreamBook } from "./streams.ts";

const EPOCH = 10_000_000;
const SHARE_MIN = 0.8;
const SHARE_MAX = 1.1;

export function nexus(parameter: string | undefined): SimClusterFactory {
  const range = { least: 1, most: 1024, otherwise: 1, example: "8", whole: "whole" } as const;
  const frontends = numberParameter({ policy: "nexus", text: parameter, ...range });
  return (options) => new RivalEngine(options, { inputs: "pushed" }, (engine) => new Nexus(engine, frontends));
}

/** One session on one accelerator. */
interface Placement {
  readonly gpu: number;
  readonly stream: number;
  readonly batchSize: number;
  readonly rate: number;
  readonly queue: DeadlineRun;
  readonly targetFor: () => number;
}

interface Node {
  readonly placements: readonly Placement[];
  /** Whose turn it is. */
  turn: number;
}

class Nexus implements Rival {
  readonly #engine: RivalEngine;
  readonly #book: StreamBook;
  readonly #prng: Prng;
  readonly #frontends: number;
  /** By frontend and stream: its placements, by how much of their rates has been sent there. */
  #rounds: IndexedHeap[][] = [];
  #placements: Placement[][] = [];
  #nodes: Node[] = [];
  /** Proportions that the plan was made for; they sum to 1. */
  #planned: Float64Array;
  #counts: Float64Array;
  #epochEnd = Infinity;
  /** Accelerators that may have something to run. */
  readonly #ready: number[] = [];

  constructor(engine: RivalEngine, frontends: number) {
    this.#engine = engine;
    this.#frontends = frontends;
    this.#book = new StreamBook(engine.options.models);
    this.#prng = new Prng(engine.options.seed).fork();
    this.#counts = new Float64Array(this.#book.streams.length);
    this.#planned = Float64Array.from(this.#book.streams, ({ share }) => share);
    this.#plan();
  }

  arrived(request: SimRequest): void {
    const { now } = this.#engine;
    if (now >= this.#epochEnd) this.#endEpoch();
    else if (this.#epochEnd === Infinity) this.#epochEnd = now + EPOCH;
    const stream = this.#book.of(request);
    this.#counts[stream]!++;
    this.#route(request, stream);
  }

  accepts(gpu: number): void {
    this.#ready.push(gpu);
  }

  decide(): void {
    for (const gpu of this.#ready) if (this.#engine.accepting.get(gpu) === 0) this.#run(gpu);
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
    if (this.#engine.accepting.get(placement.gpu) === 0) this.#ready.push(placement.gpu);
  }

  /** C6: the next session in turn that has a batch. */
  #run(gpu: number): void {
    const engine = this.#engine;
    const node = this.#nodes[gpu]!;
    for (let i = 0; i < node.placements.length; i++) {
      const { queue, stream, batchSize, targetFor } = node.placements[node.turn]!;
      node.turn = node.turn + 1 === node.placements.length ? 0 : node.turn + 1;
      const { model, profile } = this.#book.streams[stream]!;
      const size = gather({ engine, queue, profile, targetFor, most: batchSize });
      if (size === 0) continue;
      engine.dispatch(gpu, model, queue.take(0, size));
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
      // A session that was silent keeps a place: half a request an epoch.
      const known = this.#counts.map((count) => Math.max(count, 0.5));
      const sum = known.reduce((a, b) => a + b, 0);
      this.#planned = known.map((count) => count / sum);
      const waiting = this.#placements.flatMap((some) => some.flatMap(({ queue }) => queue.take(0, queue.size)));
      this.#plan();
      for (const request of waiting.toSorted((a, b) => a.id - b.id)) this.#route(request, this.#book.of(request));
    }
    this.#counts.fill(0);
  }

  #plan(): void {
    const { engine, streams } = { engine: this.#engine, streams: this.#book.streams };
    const overhead = engine.inputDelay + engine.respond;
    const loads = streams.map(({ profile, slo }, stream): Load => {
      return { profile, limit: slo - overhead, rate: this.#planned[stream]! };
    });
    const plan = fillNodes(loads, engine.options.gpus);
    this.#placements = streams.map(() => []);
    this.#nodes = plan.map(({ items }, gpu) => {
      const placements = items.map(({ load, batchSize, rate }): Placement => {
        return { gpu, stream: load, batchSize, rate, queue: new DeadlineRun(), targetFor: () => batchSize };
      });
      for (const placement of placements) this.#placements[placement.stream]!.push(placement);
      return { placements, turn: 0 };
    });
    this.#rounds = Array.from({ length: this.#frontends }, () => this.#placements.map((some) => this.#roundsOf(some)));
  }

  #roundsOf(placements: readonly Placement[]): IndexedHeap {
    const rounds = new IndexedHeap(placements.length);
    for (const [place, { rate }] of placements.entries()) {
      rounds.set(place, this.#frontends === 1 ? 0 : this.#prng.nextFloat() / rate);
    }
    return rounds;
  }
}
