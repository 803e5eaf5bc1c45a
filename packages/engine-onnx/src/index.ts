export { relativeDifference } from "./comparison.ts";
export { constantTensors } from "./constant-tensors.ts";
export { BATCHES_QUEUED_MAX, type OnnxEngineOptions, startOnnxEngine } from "./onnx-engine.ts";
export { PROVIDERS, type Provider, isProvider } from "./provider.ts";
export { randomBatch, type RandomBatchOptions } from "./random-batch.ts";
export { type NoteOptions, type RunNote, notePath, notesLeft, removeNotes } from "./run-note.ts";
export { type Trial, openTrial } from "./trial.ts";
export { ONNXRUNTIME_WANTED } from "./wanted.ts";
