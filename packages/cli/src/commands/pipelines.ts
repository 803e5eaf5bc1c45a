import { ModelRegistry } from "@tutti/client/registries";
import { type PipelineSpec, planBudgets } from "@tutti/pipelines";
import type { ProfilePoints } from "@tutti/protocol";
import { formatDuration, micros } from "@tutti/units";
import { print, renderTable, usageError } from "@tutti/admin";
import { type ClusterOptions, withCluster } from "@tutti/admin/cluster";
import { checkedPipelines } from "@tutti/host/pipelines";

const HEADINGS = ["pipeline", "SLO", "split", "stage", "model", "requests", "until", "l(1)"];

/**
 * `tutti pipelines <folder>`: lists the declared pipelines, and how each SLO is divided by the cluster's profiles. A
 * declaration that an ingress would refuse is refused before the cluster is asked.
 */
export async function pipelines(
  folder: string,
  options: ClusterOptions & { readonly json?: boolean; readonly fanOut?: readonly string[] },
): Promise<void> {
  const fanOuts = fanOutsOf(options.fanOut ?? []);
  const specs = await checkedPipelines(folder);
  return withCluster({ ...options, name: "tutti-pipelines" }, async (nats) => {
    const listed = await new ModelRegistry(nats.store).list();
    const profiles = new Map(listed.map(({ spec, status }) => [spec.name, status?.profiles[0] ?? []]));
    const all = specs.map((spec) => dividedBy(spec, profiles, fanOuts));
    if (options.json === true) print(JSON.stringify(all));
    else print(renderPipelines(all));
  });
}

interface Divided {
  readonly name: string;
  readonly version: string;
  readonly sloUs: number;
  readonly split: "planned" | "even";
  readonly stages: readonly {
    readonly name: string;
    readonly model: string;
    readonly after: readonly string[];
    readonly requests: number;
    /** End of the stage's budget, since the arrival. */
    readonly untilUs: number;
    /** Latency of one request alone on the stage's model; undefined: the model has no profile. */
    readonly aloneUs: number | undefined;
  }[];
}

/** Divides the SLO as an ingress begins, before it has measured fan-outs, functions, and the buckets in use. */
export function dividedBy(
  spec: PipelineSpec,
  profiles: ReadonlyMap<string, ProfilePoints>,
  fanOuts: ReadonlyMap<string, number> = new Map(),
): Divided {
  const pointsOf = (model: string): ProfilePoints => profiles.get(model) ?? [];
  const stages = new Map(
    spec.stages.map(({ name, model }) => {
      const ms = new Map(pointsOf(model).map(({ batchSize, latency }) => [batchSize, latency / 1000]));
      const latency = {
        batchSizes: [...ms.keys()].sort((a, b) => a - b),
        latency: (b: number) => ms.get(b) ?? Infinity,
      };
      const requests = fanOuts.get(name) ?? 1;
      return [name, { latency: ms.size === 0 ? undefined : latency, requests, stepMs: 0 }];
    }),
  );
  const { ends, split } = planBudgets(spec, { stages, finishMs: 0 });
  return {
    name: spec.name,
    version: spec.version,
    sloUs: spec.slo,
    split,
    stages: spec.stages.map(({ name, model, after }) => ({
      ...{ name, model, after, requests: stages.get(name)!.requests },
      untilUs: Math.floor(ends.get(name)! * spec.slo),
      aloneUs: pointsOf(model)[0]?.latency,
    })),
  };
}

export function renderPipelines(all: readonly Divided[]): string {
  const rows = all.flatMap(({ name, sloUs, split, stages }) =>
    stages.map((stage, i) => [
      ...(i === 0 ? [name, formatDuration(micros(sloUs)), split] : ["", "", ""]),
      stage.name,
      stage.model,
      String(stage.requests),
      formatDuration(micros(stage.untilUs)),
      stage.aloneUs === undefined ? "-" : formatDuration(micros(stage.aloneUs)),
    ]),
  );
  return renderTable(HEADINGS, rows);
}

/** Parses `recognise=12`. @throws {CommandError} saying what the flag takes */
export function fanOutsOf(texts: readonly string[]): ReadonlyMap<string, number> {
  return new Map(
    texts.map((text) => {
      const [stage = "", count = ""] = text.split("=");
      const requests = Number(count);
      if (stage !== "" && count.trim() !== "" && requests >= 0 && Number.isFinite(requests)) return [stage, requests];
      throw usageError(`--fan-out ${text}: a stage and its requests for each of the pipeline, such as recognise=12`);
    }),
  );
}
