/** Reads pipelines for an ingress; other roles don't load this module. */
export { checkPipelines, functionsOf, readPipelines } from "./pipeline-files.ts";
