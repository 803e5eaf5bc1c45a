export * from "./clock.ts";
export * from "./virtual-clock.ts";
