export * from "./budgets.ts";
export * from "./declaration.ts";
export * from "./instance.ts";
export * from "./pipeline-spec.ts";
