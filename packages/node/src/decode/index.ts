export * from "./fair-workers.ts";
export * from "./worker-decoder.ts";
