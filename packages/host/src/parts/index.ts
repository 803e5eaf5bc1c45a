export { hasTaskset, launchOf, type Machine, type Part, thisMachine, usableSizes } from "./part-launch.ts";
export { latencyOnPart } from "./part-latency.ts";
