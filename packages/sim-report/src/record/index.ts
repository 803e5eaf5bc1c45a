export { Recorder } from "./recorder.ts";
export { TraceWriter } from "./trace-writer.ts";
