export type * from "./scenario.ts";
export type * from "./result.ts";
export type * from "./simulated-cluster.ts";
