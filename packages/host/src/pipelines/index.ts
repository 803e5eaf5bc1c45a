/** Reads pipelines for an ingress; other roles don't load this module. */
export { checkPipelines, checkedPipelines, loadPipelines } from "./loaded-pipelines.ts";
export { readPipelines } from "./pipeline-files.ts";
