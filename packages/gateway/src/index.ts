export * from "./gateway.ts";
export * from "./health.ts";
export { checkToken } from "./http/bearer.ts";
export type { PortWish } from "./listening.ts";
export { GRPC_STATUS } from "./grpc/grpc-errors.ts";
export { SUMMED_FIGURES } from "./metrics/cluster-figures.ts";
export { type DeclaredMetric, declaredMetrics } from "./metrics/declared-metrics.ts";
