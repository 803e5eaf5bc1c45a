/** Streams: requests of one model and one SLO, which Nexus calls sessions. */
import type { LatencyTable } from "@tutti/profile";
import type { ScenarioModel } from "../scenario/scenario.ts";
import type { SimRequest } from "../cluster/simulated-cluster.ts";

export interface Stream {
  readonly model: number;
  readonly profile: LatencyTable;
  readonly slo: number;
  /** Share of the requests of all models. */
  readonly share: number;
}

/** The streams of a scenario: a model's further SLO classes are streams of their own. */
export class StreamIndex {
  readonly streams: readonly Stream[];
  /** Streams of each model, by rising SLO. */
  readonly #ofModel: readonly (readonly { readonly slo: number; readonly stream: number }[])[];

  constructor(models: readonly ScenarioModel[]) {
    const streams: Stream[] = [];
    this.#ofModel = models.map(({ profile, slo, share, classes }, model) => {
      const rest = 1 - classes.reduce((sum, one) => sum + one.share, 0);
      const bySlo = new Map<number, number>();
      for (const one of [{ slo, share: rest }, ...classes]) {
        if (one.share > 1e-9) bySlo.set(one.slo, (bySlo.get(one.slo) ?? 0) + one.share);
      }
      const rising = [...bySlo].toSorted(([a], [b]) => a - b);
      return rising.map(([limit, part]) => {
        streams.push({ model, profile, slo: limit, share: share * part });
        return { slo: limit, stream: streams.length - 1 };
      });
    });
    this.streams = streams;
  }

  /** The stream of the request's own SLO, or of the next shorter one; the shortest where there is none. */
  of({ model, slo }: SimRequest): number {
    const known = this.#ofModel[model]!;
    let place = known.length - 1;
    while (place > 0 && known[place]!.slo > slo) place--;
    return known[place]!.stream;
  }
}
