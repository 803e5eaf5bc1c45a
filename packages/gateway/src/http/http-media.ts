/** One inference over HTTP whose body is a picture or a sound, as a camera or a telephone has it. */
import { type AudioInput, type MediaInput, type MediaKind, initialState } from "@tutti/onnx-tools";
import { type Tensor, TuttiError } from "@tutti/protocol";
import type { MediaBodies } from "../media/media-bodies.ts";
import { joinRows } from "../oip/batch-rows.ts";
import type { InferOutcome, Inference } from "../oip/inference.ts";
import type { LongBodies } from "../oip/long-bodies.ts";
import { type RequestTerms, leftOf, readTerms } from "../oip/request-terms.ts";
import type { HttpAnswer } from "./answers.ts";
import { type HttpInferCall, httpAnswerOf, textOf } from "./http-infer.ts";

export interface HttpMediaCall extends HttpInferCall {
  readonly signal: AbortSignal;
  readonly kind: MediaKind;
  /** Undefined: a pipeline's, which gets the file as it is. */
  readonly input: MediaInput | undefined;
}
export interface MediaParts {
  readonly inference: Inference;
  readonly longBodies: LongBodies;
  readonly mediaBodies: MediaBodies;
}

/** A frame that a busy cluster refused for time is asked for again: the frames behind it need its state. */
const FRAME_ATTEMPTS = 4;
const FOR_TIME: ReadonlySet<string> = new Set([
  "TUTTI_DEADLINE_INFEASIBLE",
  "TUTTI_DEADLINE_EXCEEDED",
  "TUTTI_OVERLOADED",
  "TUTTI_UNAVAILABLE",
]);

/** @throws {TuttiError} as a rejection */
export async function inferMediaOverHttp(call: HttpMediaCall, parts: MediaParts): Promise<HttpAnswer> {
  const terms = readTerms((name) => textOf(call.headers[name]), {}, { own: call.app });
  const outcome = await outcomeOf(call, terms, parts);
  const wantsBytes = (textOf(call.headers.accept) ?? "").includes("application/octet-stream");
  return httpAnswerOf({ outcome, id: undefined, app: terms.app, isBinary: () => wantsBytes }, parts.longBodies);
}

async function outcomeOf(call: HttpMediaCall, terms: RequestTerms, parts: MediaParts): Promise<InferOutcome> {
  const { model, kind, input, body, signal } = call;
  const ask = (inputs: readonly Tensor[], now: RequestTerms): Promise<InferOutcome> =>
    parts.inference.infer({ model, version: call.version, inputs, wanted: undefined, terms: now, signal });
  // A pipeline's first function is its pre-processor.
  if (input === undefined) return ask([fileTensor(kind, body)], terms);
  const startedAt = performance.now();
  const tensors = await parts.mediaBodies.tensors({ model, app: terms.app, bytes: body, input, signal });
  if (input.kind === "audio") return framesOutcome(tensors, input, (inputs) => ask(inputs, terms));
  return ask(tensors, { ...terms, slo: leftOf(terms.slo ?? call.slo, performance.now() - startedAt) });
}

const fileTensor = (kind: MediaKind, data: Uint8Array): Tensor => ({
  ...{ name: kind === "picture" ? "image" : "audio", type: "UINT8", dims: [data.byteLength], data },
});

/** Frame after frame, each with the state that the one before it left. @returns the other outputs, a row for each frame */
async function framesOutcome(
  frames: readonly Tensor[],
  input: AudioInput,
  ask: (inputs: readonly Tensor[]) => Promise<InferOutcome>,
): Promise<InferOutcome> {
  let state = initialState(input);
  let answered: Omit<InferOutcome, "outputs"> | undefined;
  const rows: Tensor[][] = [];
  for (const frame of frames) {
    const { outputs, ...rest } = await persistent(() => ask([frame, state]));
    const next = outputs.find(({ name }) => name === input.state.output);
    if (next === undefined)
      throw new TuttiError("TUTTI_INTERNAL", `"${rest.model}" gave no "${input.state.output}" for the next frame`);
    state = { ...next, name: input.state.input };
    rows.push(outputs.filter((output) => output !== next));
    answered ??= rest;
  }
  return { ...answered!, outputs: joinRows(rows) };
}

async function persistent<Result>(ask: () => Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await ask();
    } catch (error) {
      if (attempt >= FRAME_ATTEMPTS || !(error instanceof TuttiError) || !FOR_TIME.has(error.code)) throw error;
    }
  }
}
