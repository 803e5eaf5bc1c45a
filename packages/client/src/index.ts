export * from "./answer.ts";
export * from "./client.ts";
export * from "./connect.ts";
export * from "./model-registry.ts";
export * from "./tensors.ts";
