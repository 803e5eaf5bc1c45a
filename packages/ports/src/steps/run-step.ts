import { type InferRequest, TuttiError } from "@tutti/protocol";
import { decodeRequest, encodeTensors } from "@tutti/wire";
import type { StepInput } from "./step-function.ts";
import { fromTensors, messageOf, tensorsOf } from "./step-tensors.ts";
import type { StepCall, StepOutcome } from "./steps.ts";

/** Result of a function, with `keep` not stored yet: the caller decides how. */
export interface RanStep extends Omit<StepOutcome, "keep"> {
  readonly keep: unknown;
}

/** A call whose body has been decoded. */
export interface ReadCall {
  readonly step: StepInput;
  readonly read: StepOutcome["read"];
}

/** @throws {TuttiError} INVALID_INPUT: the body can't be read */
export function readCall(call: StepCall, kept: Readonly<Record<string, unknown>>): ReadCall {
  const { form, payload } = call.body;
  const request: InferRequest = decodeRequest(form, payload);
  const id = call.id ?? request.id;
  const parameters = call.parameters ?? request.parameters;
  // Encode the inputs now: later calls must not see what a function writes into its tensors.
  const message = form === "binary" ? undefined : encodeTensors(request.inputs);
  return {
    step: {
      input: message === undefined ? fromTensors(request.inputs) : tensorsOf(message.slice()),
      stages: Object.fromEntries(Object.entries(call.stages).map(([stage, all]) => [stage, all.map(tensorsOf)])),
      kept,
      request: {
        pipeline: call.pipeline,
        app: call.app,
        ...(id !== undefined && { id }),
        ...(parameters !== undefined && { parameters }),
      },
    },
    read: { id, outputs: request.outputs, parameters, payload: message },
  };
}

/** @throws {TuttiError} INTERNAL naming the function: its result has none of the allowed forms */
export function readResult(call: StepCall, result: unknown, read: StepOutcome["read"]): RanStep {
  const where = `${call.function} of pipeline "${call.pipeline}"`;
  if (call.makes === "answer") return { messages: [messageOf(result, where)], keep: undefined, read };
  const { requests, keep } = partsOf(result);
  const list = Array.isArray(requests) ? (requests as readonly unknown[]) : [requests];
  return { messages: list.map((one) => messageOf(one, where)), keep, read };
}

/**
 * Splits a result into requests and `keep`. A model's own input may be called `requests`: then it is a tensor, with a
 * type.
 */
function partsOf(result: unknown): { readonly requests: unknown; readonly keep: unknown } {
  if (typeof result !== "object" || result === null || Array.isArray(result))
    return { requests: result, keep: undefined };
  const { requests, keep } = result as Record<string, unknown>;
  const isTensor = typeof requests === "object" && requests !== null && "type" in requests && "dims" in requests;
  return requests === undefined || (isTensor && typeof requests.type === "string")
    ? { requests: result, keep: undefined }
    : { requests, keep };
}

/** The error that a publisher gets for an error that a function threw. */
export function stepError(call: Pick<StepCall, "function" | "pipeline">, error: unknown): TuttiError {
  if (error instanceof TuttiError) return error;
  const { message, code } = (typeof error === "object" && error !== null ? error : {}) as Record<string, unknown>;
  const text = typeof message === "string" ? message : String(error);
  if (code === "TUTTI_INVALID_INPUT") return new TuttiError(code, text);
  return new TuttiError("TUTTI_INTERNAL", `${call.function} of pipeline "${call.pipeline}" failed: ${text}`, {
    cause: error,
  });
}
