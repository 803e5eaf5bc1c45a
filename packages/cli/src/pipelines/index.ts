/** What an ingress needs to serve pipelines; other roles don't load it. */
export { functionsOf, readPipelines } from "./pipeline-files.ts";
