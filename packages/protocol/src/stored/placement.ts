/**
 * The planner's assignment of models and accelerators to sub-clusters: one value in the bucket of plans. A model or
 * accelerator that isn't in it waits to be placed. Before the first plan there is no value, and everything belongs to
 * `DEFAULT_SUB_CLUSTER`.
 *
 *   PL1. Executors keep loaded the models of their sub-cluster: those with `subCluster` or `next` equal to it. So any
 *        accelerator of a sub-cluster can run any candidate of it (docs/algorithms.md, A4).
 *   PL2. Batchers offer a model's candidate to the leader of its `subCluster` only.
 *   PL3. A model moves in two steps. `next` names its target, and executors there load it. When every living one of
 *        them has loaded it, the planner makes `next` its `subCluster`. So a model is never without an executor (unless
 *        the one it had died). Executors of the old sub-cluster unload it when its granted batches have run.
 *   PL4. An accelerator moves at once: its executor loads the missing models (beside those that it serves, if its
 *        memory holds both), then leaves one leader and joins the other. The planner never takes a sub-cluster's last
 *        accelerator while a model is there.
 *   PL5. The accelerators of one executor share its process and its memory, so they move together: the executor belongs
 *        to the sub-cluster of its lowest-numbered accelerator.
 *   PL6. A model with `scaleToZero` may be parked. While it is in `models` too, it is served as before and about to
 *        leave. When only `parked` has it, no executor keeps it and batchers hold its requests. With `next`, executors
 *        there load it; once one of them has it, it returns to `models`. Its requests have its cold start
 *        beyond their SLOs for as long as it is in `parked`. Readers that don't know `parked` see a model without a
 *        place.
 */
import { GPUS_MAX } from "@tutti/units";
import { MODELS_MAX } from "../limits.ts";
import { type Static, schema } from "../schema.ts";
import { stored } from "./stored.ts";

const PlacedModel = schema.also(
  schema.record({ number: schema.model, subCluster: schema.name, next: schema.optional(schema.name) }),
  ({ subCluster, next }) => next !== subCluster,
);
export type PlacedModel = Static<typeof PlacedModel>;

const PlacedGpu = schema.record({ gpu: schema.gpu, subCluster: schema.name });
export type PlacedGpu = Static<typeof PlacedGpu>;

const ParkedModel = schema.record({ number: schema.model, since: schema.moment, next: schema.optional(schema.name) });
export type ParkedModel = Static<typeof ParkedModel>;

/** Validates what readers rely on (T8): no duplicates, and only valid names. */
export const isPlacement = stored(
  "placement",
  1,
  schema.record({
    /** Number of the placement, which rises with each change. */
    epoch: schema.count,
    madeAt: schema.moment,
    models: schema.distinct(PlacedModel, MODELS_MAX, ({ number }) => number),
    gpus: schema.distinct(PlacedGpu, GPUS_MAX, ({ gpu }) => gpu),
    /** Absent: none. */
    parked: schema.optional(schema.distinct(ParkedModel, MODELS_MAX, ({ number }) => number)),
  }),
);
export type Placement = Static<typeof isPlacement>;

export const DEFAULT_SUB_CLUSTER = "main";
/** Key in the bucket of plans. */
export const PLACEMENT_KEY = "placement";
