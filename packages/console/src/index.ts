export * from "./console-files.ts";
export * from "./feed.ts";
