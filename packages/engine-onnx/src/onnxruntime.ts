/**
 * onnxruntime, without its telemetry: from 1.30 on its library sends usage events to its vendor unless the environment
 * says otherwise when it is loaded. Modules import it from here, so that none loads it earlier.
 */
import "./no-telemetry.ts";

export { default } from "onnxruntime-node";
export type * from "onnxruntime-node";
