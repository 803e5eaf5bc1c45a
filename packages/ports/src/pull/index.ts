export * from "./fallback-client.ts";
export * from "./in-memory-data-network.ts";
export * from "./pending-pulls.ts";
export * from "./pull.ts";
export * from "./token.ts";
