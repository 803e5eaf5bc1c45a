export { ProcessLog } from "./process-log.ts";
export { keeperOf } from "./process-manager.ts";
export { type AgentOptions, type RunningAgent, startAgent } from "./start-agent.ts";
