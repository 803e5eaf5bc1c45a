export * from "./drawn-problem.ts";
export * from "./worked-fractions.ts";
export * from "./partition-oracle.ts";
