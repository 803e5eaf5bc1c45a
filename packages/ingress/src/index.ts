export { createIngress, type IngressConfig, type IngressPorts } from "./ingress.ts";
export { type ServedPipelines } from "./pipelines/pipeline-runner.ts";
