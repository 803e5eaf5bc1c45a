/** Exports for other operator programs, such as the gateway's console: the commands' views, texts and orders. */
export { type ActorRow, actorRows } from "./actor-table.ts";
export { ClusterView, type HeardActor, latestOf } from "./cluster-view.ts";
export { OperatorLink } from "./operator-link.ts";
export { type RestartPorts, restartActor } from "./restart-actor.ts";
export { type ClusterStatus, type ModelStatusRow, statusOf } from "./status-table.ts";
export { livePlan, type LivePlan } from "./live-plan.ts";
export { measuredDelays, type MeasuredDelays } from "./measured-delays.ts";
