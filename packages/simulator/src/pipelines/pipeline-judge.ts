/**
 * PipelineJudge: outcomes of the requests to each pipeline, by the rules of the judge of models (J1). A request is good
 * if all of it was answered by its deadline.
 */
import type { Instant } from "@tutti/units";
import type { PipelineResult } from "../results/result.ts";
import type { Scenario, ScenarioPipeline } from "../scenario/scenario.ts";
import type { StreamTally } from "../results/stream-tallies.ts";
import { TimeCounts } from "../bounds/time-counts.ts";

class Tally {
  readonly answers = new TimeCounts();
  readonly refusedAt = new Map<string, number>();
  offered = 0;
  bad = 0;
}

export class PipelineJudge {
  readonly #scenario: Scenario;
  readonly #pipelines: readonly ScenarioPipeline[];
  readonly #tallies: readonly Tally[];
  readonly #counts: (arrivedAt: Instant) => boolean;

  constructor(scenario: Scenario, pipelines: readonly ScenarioPipeline[], counts: (arrivedAt: Instant) => boolean) {
    this.#scenario = scenario;
    this.#counts = counts;
    this.#pipelines = pipelines;
    this.#tallies = pipelines.map(() => new Tally());
  }

  arrived(pipeline: number, at: Instant): void {
    if (this.#counts(at)) this.#tallies[pipeline]!.offered++;
  }
  refused(pipeline: number, arrivedAt: Instant, stage: string): void {
    if (!this.#counts(arrivedAt)) return;
    const tally = this.#tallies[pipeline]!;
    tally.bad++;
    tally.refusedAt.set(stage, (tally.refusedAt.get(stage) ?? 0) + 1);
  }
  answered(pipeline: number, arrivedAt: Instant, at: Instant): void {
    if (!this.#counts(arrivedAt)) return;
    const tally = this.#tallies[pipeline]!;
    if (at - arrivedAt > this.#pipelines[pipeline]!.slo) tally.bad++;
    tally.answers.note(at - arrivedAt);
  }

  results(): PipelineResult[] {
    const seconds = (this.#scenario.duration - this.#scenario.warmup) / 1e6;
    return this.#pipelines.map(({ name, stages }, i) => {
      const { offered, bad, answers, refusedAt } = this.#tallies[i]!;
      const millis = (share: number): number | null => {
        const time = answers.quantile(share, offered);
        return Number.isFinite(time) ? time / 1000 : null;
      };
      return {
        name,
        offeredRps: offered / seconds,
        goodRps: (offered - bad) / seconds,
        badRate: offered > 0 ? bad / offered : 0,
        p50Ms: millis(0.5),
        p99Ms: millis(0.99),
        refusedAt: stages.map((stage) => ({
          stage: stage.name,
          share: offered > 0 ? (refusedAt.get(stage.name) ?? 0) / offered : 0,
        })),
      };
    });
  }
  /** @param from - the number of the first pipeline among what goodput is judged by */
  streams(from: number): StreamTally[] {
    return this.#pipelines.map(({ slo }, i) => {
      const { offered, bad } = this.#tallies[i]!;
      return { model: from + i, slo, offered, bad };
    });
  }
}
