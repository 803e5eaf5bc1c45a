export { createIngress } from "./ingress.ts";
export { type IngressConfig, type IngressPorts } from "./ingress-ports.ts";
export { type ServedPipelines } from "./pipelines/pipeline-runner.ts";
