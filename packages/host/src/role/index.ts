/** Exports for `services/*`, which run as processes of a cluster. */
export { emptyFolder } from "./empty-folder.ts";
export { makeStateFolder } from "./own-folder.ts";
export * from "./engines.ts";
export * from "./held.ts";
export * from "./role-defaults.ts";
export * from "./role-flags.ts";
export * from "./role-options.ts";
export * from "./run-process.ts";
export * from "./data-plane.ts";
export { processArguments } from "./process-arguments.ts";
