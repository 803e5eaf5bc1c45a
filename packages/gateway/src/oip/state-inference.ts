/** One request of a sequence: adds the state of the previous request, and keeps the new one. */
import { type AudioInput, initialState, presentationOf } from "@tutti/onnx-tools";
import { type ModelSpec, type Tensor, TuttiError } from "@tutti/protocol";
import type { InferCall, InferOutcome, Inference } from "./inference.ts";
import { type SequenceStep, termsLeft } from "./request-terms.ts";
import type { Progress, Sequences } from "./sequences.ts";

/** A call whose inputs are made at its turn. */
export type SequenceCall = Omit<InferCall, "inputs"> & { readonly inputs: () => Promise<readonly Tensor[]> };

export interface StateParts {
  readonly inference: Pick<Inference, "infer">;
  readonly sequences: Sequences;
}

/**
 * Runs a request of a sequence. Waiting for the earlier requests counts against the SLO.
 *
 * @param spec - undefined: a pipeline
 * @throws {TuttiError} as a rejection: INVALID_INPUT where the model declares no state, or the sequence is not known
 */
export async function inferInSequence(
  { inference, sequences }: StateParts,
  spec: ModelSpec | undefined,
  step: SequenceStep,
  call: SequenceCall,
): Promise<InferOutcome> {
  const { model, terms, signal } = call;
  const { input } = presentationOf(spec?.presentation);
  if (spec === undefined || input?.kind !== "audio")
    throw invalid(
      `"${model}" declares no state, so sequences are not served: send what it remembers as one of its inputs, without sequence_id`,
    );
  const initial = initialState(input);
  const startedAt = performance.now();
  return sequences.run({ app: terms.app, model, step, initial, signal }, async (at) => {
    const inputs = await call.inputs();
    const left = termsLeft(terms, spec.slo, performance.now() - startedAt);
    const outcome = await inference.infer({ ...withState(input, { ...call, inputs }, at), terms: left });
    const isWanted = call.wanted?.includes(input.state.output) ?? true;
    const outputs = isWanted ? outcome.outputs : outcome.outputs.filter(({ name }) => name !== input.state.output);
    const next = { state: nextState(input, outcome, initial), version: outcome.version };
    return { result: { ...outcome, outputs }, next };
  });
}

/** Adds the state, unless the client sends one itself. */
function withState({ state }: AudioInput, call: InferCall, at: Progress): InferCall {
  const { inputs, wanted, version } = call;
  const isGiven = inputs.some(({ name }) => name === state.input);
  return {
    ...call,
    inputs: isGiven ? inputs : [...inputs, at.state],
    wanted: wanted === undefined || wanted.includes(state.output) ? wanted : [...wanted, state.output],
    // Another version could not read its state.
    version: version === undefined || version === "" ? at.version : version,
  };
}

/** Copies the state's bytes: an answer is often a view of a larger message. */
function nextState({ state }: AudioInput, { model, outputs }: InferOutcome, initial: Tensor): Tensor {
  const next = outputs.find(({ name }) => name === state.output);
  if (next?.data.byteLength !== initial.data.byteLength)
    throw new TuttiError(
      "TUTTI_INTERNAL",
      `"${model}" gave ${next?.data.byteLength ?? "no"} bytes of "${state.output}", where its presentation declares ${initial.data.byteLength}`,
    );
  return { ...next, name: state.input, data: new Uint8Array(next.data) };
}

const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
