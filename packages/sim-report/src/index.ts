export * from "./comparison-page.ts";
export * from "./mixes-page.ts";
export * from "./simulation-page.ts";
export * from "./timeline-recorder.ts";
