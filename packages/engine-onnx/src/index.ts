export { DIFFERENCE_MAX } from "./comparison.ts";
export { BATCHES_QUEUED_MAX, type OnnxEngineOptions, startOnnxEngine } from "./onnx-engine.ts";
export { PROVIDERS, type Provider, isProvider } from "./provider.ts";
export { randomBatch, type RandomBatchOptions } from "./random-batch.ts";
export { type NoteOptions, type RunNote, notePath, notesLeft } from "./run-note.ts";
