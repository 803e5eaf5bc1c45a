export * from "./fair-workers.ts";
export * from "./inline-time.ts";
export * from "./worker-decoder.ts";
