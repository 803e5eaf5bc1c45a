/** What pictures without a browser are made of, for reports of other kinds than a simulation's. */
export * from "./charts/panels.ts";
export * from "./palette.ts";
export * from "./svg.ts";
