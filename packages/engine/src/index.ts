export * from "./emulated-profiles.ts";
export * from "./emulated.ts";
export * from "./engine.ts";
