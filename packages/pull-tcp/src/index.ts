export * from "./tcp-data-client.ts";
export * from "./tcp-data-server.ts";
