/** One inference over HTTP whose body is a picture or a sound, as a camera or a phone sends it. */
import type { MediaInput, MediaKind } from "@tutti/onnx-tools";
import type { Tensor } from "@tutti/protocol";
import type { MediaInference } from "../media/media-inference.ts";
import type { InferOutcome, Inference } from "../oip/inference.ts";
import type { LongBodies } from "../oip/long-bodies.ts";
import { withTexts } from "../oip/protocol-inference.ts";
import { type RequestTerms, readTerms } from "../oip/request-terms.ts";
import type { HttpAnswer } from "./answers.ts";
import { type HttpInferCall, httpAnswerOf, textOf } from "./http-infer.ts";

export interface HttpMediaCall extends HttpInferCall {
  readonly kind: MediaKind;
  /** Undefined for a pipeline, which gets the file as it is. */
  readonly input: MediaInput | undefined;
}
export interface MediaParts {
  readonly inference: Inference;
  readonly media: MediaInference;
  readonly longBodies: LongBodies;
}

/** @throws {TuttiError} as a rejection */
export async function inferMediaOverHttp(call: HttpMediaCall, parts: MediaParts): Promise<HttpAnswer> {
  const terms = readTerms((name) => textOf(call.headers[name]), {}, { own: call.app });
  const outcome = withTexts(await outcomeOf(call, terms, parts));
  const wantsBytes = (textOf(call.headers.accept) ?? "").includes("application/octet-stream");
  return httpAnswerOf({ outcome, id: undefined, app: terms.app, isBinary: () => wantsBytes }, parts.longBodies);
}

function outcomeOf(call: HttpMediaCall, terms: RequestTerms, parts: MediaParts): Promise<InferOutcome> {
  const { model, version, kind, input, body, slo, receivedAt, signal } = call;
  const asked = { model, version, wanted: undefined, terms, signal };
  // A pipeline's first function is its pre-processor.
  if (input === undefined) return parts.inference.infer({ ...asked, inputs: [fileTensor(kind, body)] });
  return parts.media.infer({ ...asked, file: body, input, others: [], slo, receivedAt });
}

const fileTensor = (kind: MediaKind, data: Uint8Array): Tensor => ({
  ...{ name: kind === "picture" ? "image" : "audio", type: "UINT8", dims: [data.byteLength], data },
});
