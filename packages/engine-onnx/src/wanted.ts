import manifest from "../package.json" with { type: "json" };

/** The version of onnxruntime-node that the engine was tested with, and no other. */
export const ONNXRUNTIME_WANTED: string = manifest.dependencies["onnxruntime-node"];
