/** Reads pipelines for an ingress; other roles don't load this module. */
export { functionsOf, readPipelines } from "./pipeline-files.ts";
