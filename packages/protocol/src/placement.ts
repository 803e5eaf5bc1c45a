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
 */
import { GPUS_MAX, type GpuId, type Instant } from "@tutti/units";
import { MODELS_MAX, isName } from "./limits.ts";

export interface Placement {
  /** Number of the placement, which rises with each change. */
  readonly epoch: number;
  readonly madeAt: Instant;
  readonly models: readonly PlacedModel[];
  readonly gpus: readonly PlacedGpu[];
}
export interface PlacedModel {
  readonly number: number;
  readonly subCluster: string;
  readonly next?: string;
}
export interface PlacedGpu {
  readonly gpu: GpuId;
  readonly subCluster: string;
}

export const DEFAULT_SUB_CLUSTER = "main";
/** Key in the bucket of plans. */
export const PLACEMENT_KEY = "placement";

const isText = (value: unknown): value is string => typeof value === "string" && isName(value);
const isWhole = (value: unknown, below: number): boolean =>
  Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) < below;
const isListOf = (value: unknown, max: number, isItem: (item: Readonly<Record<string, unknown>>) => boolean): boolean =>
  Array.isArray(value) &&
  value.length <= max &&
  value.every((item) => typeof item === "object" && item !== null && isItem(item as Readonly<Record<string, unknown>>));

/** Validates what readers rely on (T8): no duplicates, and only valid names. */
export function isPlacement(value: unknown): value is Placement {
  if (typeof value !== "object" || value === null) return false;
  const { epoch, madeAt, models, gpus } = value as { readonly [K in keyof Placement]?: unknown };
  const isShaped =
    isWhole(epoch, Number.MAX_SAFE_INTEGER) &&
    isWhole(madeAt, Number.MAX_SAFE_INTEGER) &&
    isListOf(
      models,
      MODELS_MAX,
      ({ number, subCluster, next }) =>
        isWhole(number, 2 ** 26) && isText(subCluster) && (next === undefined || (isText(next) && next !== subCluster)),
    ) &&
    isListOf(gpus, GPUS_MAX, ({ gpu, subCluster }) => isWhole(gpu, GPUS_MAX) && isText(subCluster));
  if (!isShaped) return false;
  const { models: placed, gpus: owned } = value as Placement;
  return (
    new Set(placed.map(({ number }) => number)).size === placed.length &&
    new Set(owned.map(({ gpu }) => gpu)).size === owned.length
  );
}
