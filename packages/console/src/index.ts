export * from "./console-files.ts";
export * from "./feed.ts";
export * from "./history.ts";
