export * from "./answer.ts";
export * from "./client.ts";
export * from "./connect.ts";
export * from "./families.ts";
export * from "./model-registry.ts";
export * from "./route-registry.ts";
export * from "./tensors.ts";
