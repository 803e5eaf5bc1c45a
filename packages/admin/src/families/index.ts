export * from "./equal-outputs.ts";
export * from "./family-profit.ts";
export * from "./family-spec.ts";
export * from "./likely-families.ts";
export * from "./make-family.ts";
export * from "./row-axes.ts";
