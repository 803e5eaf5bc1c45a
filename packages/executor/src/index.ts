export { type OutputPlace, rowOfOutput } from "./batches/batch-buffer.ts";
export { createExecutor, type ExecutorConfig, type ExecutorPorts, type LastRun } from "./executor.ts";
export { type BatchPart, rowBuffer, type RowBuffer } from "./batches/padded-buffer.ts";
