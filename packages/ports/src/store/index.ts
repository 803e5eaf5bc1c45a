export * from "./store.ts";
export { InMemoryStore, type InMemoryStoreOptions } from "./in-memory-store.ts";
