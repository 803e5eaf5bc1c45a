/** Exports for the planner of a running cluster, and nothing else: processes of every role load them. */
export { type WorkedModel, workPerRequest, worksOf } from "./placement/model-work.ts";
export {
  type ModelToPark,
  type ParkedPlace,
  type Parking,
  isSameParking,
  loadWaking,
  parkModels,
} from "./placement/parking.ts";
export * from "./placement/placement-problem.ts";
export { bytesText } from "./placement/placement-texts.ts";
export { isSamePlace, planPlacement } from "./placement/plan-placement.ts";
export { type PooledModel, poolCapacity } from "./pools/pool-capacity.ts";
export { type OfferedType, servingTypes } from "./pools/serving-types.ts";
export { type TypedPoolModel, capacitiesFor, typedCapacity } from "./pools/typed-capacity.ts";
export * from "./rollout/ramp.ts";
export * from "./scaling/scaling-advisor.ts";
export * from "./scaling/scaling-planner.ts";
export {
  type DivisionEstimate,
  BUSY_HIGH,
  DIVIDED_LEAST,
  SubClusterCounter,
  neededByMemory,
} from "./sub-clusters/count.ts";
export { Divisions } from "./sub-clusters/fullness.ts";
export { placeModels } from "./sub-clusters/local-search.ts";
