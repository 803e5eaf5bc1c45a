export * from "./decoder.ts";
