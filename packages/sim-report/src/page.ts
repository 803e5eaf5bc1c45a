/** What pages are made of, for reports of other kinds than a simulation's. */
export * from "./charts/axes.ts";
export * from "./html.ts";
export * from "./palette.ts";
