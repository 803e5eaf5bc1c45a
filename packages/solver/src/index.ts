export type * from "./solver.ts";
export * from "./trying-solver.ts";
