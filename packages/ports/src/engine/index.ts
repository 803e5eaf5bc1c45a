export * from "./emulated-profiles.ts";
export * from "./emulated.ts";
export * from "./engine.ts";
export { elementTypesIn, externalDataProblem } from "./external-data.ts";
export * from "./run-sizes.ts";
export * from "./row-groups.ts";
