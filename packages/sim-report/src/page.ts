/** Exports for pages of other reports than a simulation's. */
export * from "./charts/axes.ts";
export * from "./html.ts";
export * from "./palette.ts";
