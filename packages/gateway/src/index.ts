export * from "./gateway.ts";
export * from "./health.ts";
