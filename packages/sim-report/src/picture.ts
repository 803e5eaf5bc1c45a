/** Exports for pictures without a browser, for other reports than a simulation's. */
export * from "./charts/panels.ts";
export * from "./palette.ts";
export * from "./svg.ts";
