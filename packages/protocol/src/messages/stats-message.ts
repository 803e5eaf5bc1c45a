/** Figures that actors report of themselves every second, and the pipelines that an ingress serves. */
import { type MessageOf, packed } from "../fields.ts";
import { RANK_MAX, TENSORS_MAX, TENSOR_NAME_BYTES_MAX } from "../limits.ts";
import { ArrivalReports, BatchReports, RefusalReports } from "./reports.ts";
import { type Static, schema } from "../schema.ts";

const figures = schema.map(schema.finite);

/** A tensor as the Open Inference Protocol describes it; an axis of any size is -1. */
export const DescribedTensor = schema.record({
  name: schema.text(TENSOR_NAME_BYTES_MAX),
  datatype: schema.text(16),
  shape: schema.list(schema.whole(-1, 2 ** 32 - 1), RANK_MAX),
});
export type DescribedTensor = Static<typeof DescribedTensor>;

/** A pipeline that an ingress serves: the store doesn't know it. */
export const PipelineReport = schema.record({
  name: schema.name,
  version: schema.text(64),
  slo: schema.slo,
  stages: schema.list(schema.record({ name: schema.name, model: schema.name }), 32),
  inputs: schema.list(DescribedTensor, TENSORS_MAX),
  outputs: schema.list(DescribedTensor, TENSORS_MAX),
});
export type PipelineReport = Static<typeof PipelineReport>;

/** An actor's figures of the last second, for the status line, `tutti status` and metrics. Numbers only, by name. */
export const StatsReported = packed(
  {
    key: schema.actor,
    role: schema.role,
    at: schema.moment,
    /** Release that the actor's process runs. */
    release: schema.optional(schema.text(64)),
    /** Time that the actor has counted for: its totals began at zero so long ago. */
    countedFor: schema.optional(schema.time),
    figures,
    perThread: schema.optional(schema.list(schema.record({ thread: schema.thread, name: schema.text(), figures }))),
    /** The same of jobs, apart from them: nothing that is planned for requests counts jobs. */
    perJobThread: schema.optional(schema.list(schema.record({ thread: schema.thread, name: schema.text(), figures }))),
    perGpu: schema.optional(schema.list(schema.record({ gpu: schema.gpu, figures }))),
    /**
     * ingress: figures of variants of families, of pipelines, and of their stages; `of` is the family or the pipeline.
     */
    perPart: schema.optional(
      schema.list(
        schema.record({
          kind: schema.oneOf(["variant", "pipeline", "stage"]),
          of: schema.text(),
          name: schema.text(),
          figures,
        }),
      ),
    ),
    /** ingress: the pipelines that it serves. */
    pipelines: schema.optional(schema.list(PipelineReport, 256)),
    /** Events since the last report, for people (reports.ts): `batches` from batchers, the others from ingresses. */
    batches: schema.optional(schema.unchecked(BatchReports)),
    arrivals: schema.optional(schema.unchecked(ArrivalReports)),
    refusals: schema.optional(schema.unchecked(RefusalReports)),
  },
  { tag: 72, name: "stats-reported", from: "every actor", to: "whoever listens", repair: "the next one" },
);
export type StatsReported = MessageOf<typeof StatsReported>;
