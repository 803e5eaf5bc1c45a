export * from "./worker-decoder.ts";
