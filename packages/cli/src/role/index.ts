/** Exports for `services/*`, which run as processes of a cluster. */
export { CommandError, EXIT } from "../failure.ts";
export { emptyFolder } from "./empty-folder.ts";
export * from "./engines.ts";
export * from "./held.ts";
export * from "./role-defaults.ts";
export { NODE_ROLES } from "./node-roles.ts";
export * from "./option-values.ts";
export * from "./role-flags.ts";
export * from "./role-options.ts";
export * from "./run-process.ts";
export * from "./data-plane.ts";
