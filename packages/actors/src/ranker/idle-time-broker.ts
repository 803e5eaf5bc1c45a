import type { Clock } from "@tutti/ports/clock";
import { IdleAsked, IdleGiven } from "@tutti/protocol";
import { type Grant, type RankThread, giveIdleTime, idleDelayOf } from "@tutti/scheduling";
import { type GpuId, type Instant, after, micros } from "@tutti/units";
import type { ActorRuntime } from "../runtime/actor-runtime.ts";

/** Gives executors idle time for isolated runs (docs/algorithms.md, B9), and counts the delays that this causes. */
export class IdleTimeBroker {
  readonly #until = new Map<GpuId, Instant>();
  #asked = 0;
  #given = 0;
  #delayed = 0;
  #delayUs = 0;
  #delayUsMost = 0;

  constructor(options: {
    readonly runtime: ActorRuntime;
    readonly clock: Clock;
    /** State that the leader grants with; undefined: we don't lead. */
    readonly leading: () => RankThread | undefined;
    readonly onGiven: () => void;
  }) {
    const { runtime, clock } = options;
    runtime.onPacked(IdleAsked, (asked, sender) => {
      const rank = options.leading();
      if (rank === undefined || asked.executor !== sender || asked.epoch !== rank.epoch) return;
      this.#asked++;
      const now = clock.now();
      const { gpu, epoch, grantSeq } = asked;
      const until = giveIdleTime(rank, now, asked);
      if (until === undefined) return;
      this.#given++;
      this.#until.set(gpu, until);
      const validUntil = after(now, micros(rank.validityTimes * rank.ctrl));
      runtime.send(sender, IdleGiven, { gpu, epoch, grantSeq, validUntil, until });
      options.onGiven();
    });
  }

  /** Counts the delay of a grant whose candidate waited for idle time given on its accelerator. */
  granted(rank: RankThread, grant: Grant): void {
    const until = this.#until.get(grant.gpu);
    if (until === undefined) return;
    this.#until.delete(grant.gpu);
    const delay = idleDelayOf(rank, grant, until);
    if (delay === 0) return;
    this.#delayed++;
    this.#delayUs += delay;
    this.#delayUsMost = Math.max(this.#delayUsMost, delay);
  }
  forget(gpu: GpuId): void {
    this.#until.delete(gpu);
  }

  /**
   * Totals: `idleDelayed` grants started `idleDelayUs` later in all than their candidates wanted, one of them
   * `idleDelayUsMost`.
   */
  figures(): Record<string, number> {
    return {
      idleAsked: this.#asked,
      idleGiven: this.#given,
      idleDelayed: this.#delayed,
      idleDelayUs: this.#delayUs,
      idleDelayUsMost: this.#delayUsMost,
    };
  }
}
