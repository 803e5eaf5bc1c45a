/**
 * One inference whose input is a picture or a sound as a file. The file is decoded, and where the model takes sound
 * frame by frame, each frame is a request.
 */
import type { CancelSignal } from "@tutti/client";
import { type AudioInput, type MediaInput, initialState } from "@tutti/onnx-tools";
import { type Tensor, TuttiError } from "@tutti/protocol";
import type { Micros } from "@tutti/units";
import { joinRows } from "../oip/batch-rows.ts";
import type { BegunRequest } from "../oip/begun-request.ts";
import type { InferOutcome, Inference } from "../oip/inference.ts";
import { type RequestTerms, termsLeft } from "../oip/request-terms.ts";
import type { MediaBodies } from "./media-bodies.ts";

export interface MediaCall {
  readonly model: string;
  readonly version: string | undefined;
  readonly id?: string | undefined;
  /** Borrowed until the promise settles. */
  readonly file: Uint8Array;
  /** The model's input that the file becomes. */
  readonly input: MediaInput;
  /** Inputs beside the file. */
  readonly others: readonly Tensor[];
  /** Names; undefined: all. */
  readonly wanted: readonly string[] | undefined;
  readonly terms: RequestTerms;
  /** The model's SLO. */
  readonly slo: Micros | undefined;
  /** When its first byte came, by `performance.now()`. Default: now. */
  readonly receivedAt?: number | undefined;
  readonly signal: CancelSignal;
}

/** Attempts per frame where a busy cluster refuses it: the frames behind it need its state. */
const FRAME_ATTEMPTS = 4;
const FOR_TIME: ReadonlySet<string> = new Set([
  "TUTTI_DEADLINE_INFEASIBLE",
  "TUTTI_DEADLINE_EXCEEDED",
  "TUTTI_OVERLOADED",
  "TUTTI_UNAVAILABLE",
]);

export class MediaInference {
  readonly #inference: Pick<Inference, "infer" | "begin" | "refuse">;
  readonly #bodies: MediaBodies;

  constructor(inference: Pick<Inference, "infer" | "begin" | "refuse">, bodies: MediaBodies) {
    this.#inference = inference;
    this.#bodies = bodies;
  }

  /**
   * Runs the inference. A picture's time counts from its first byte, decoding included; each frame of a sound has the
   * whole SLO. @throws {TuttiError} as a rejection
   */
  async infer({ file, input, others, slo, receivedAt = performance.now(), ...call }: MediaCall): Promise<InferOutcome> {
    const { wanted, terms } = call;
    let begun: BegunRequest | undefined = this.#inference.begin(call, receivedAt);
    let tensors: readonly Tensor[];
    let left = terms;
    const isPicture = input.kind === "image";
    try {
      const last = isPicture ? (terms.costs?.at(-1)!.after ?? terms.slo ?? slo) : undefined;
      tensors = await this.#decode(begun, { ...call, file, input }, last);
      if (isPicture) left = termsLeft(terms, slo, performance.now() - receivedAt);
    } catch (error) {
      this.#inference.refuse(begun, call, error as TuttiError);
      throw error;
    }
    if (input.kind !== "audio")
      return this.#inference.infer({ ...call, inputs: [...tensors, ...others], terms: left, begun });
    return framesOutcome(tensors, input, (inputs) => {
      const first = begun;
      begun = undefined;
      return this.#inference.infer({
        ...{ ...call, inputs: [...inputs, ...others], wanted: withState(wanted, input) },
        ...(first !== undefined && { begun: first }),
      });
    });
  }

  async #decode(
    begun: BegunRequest,
    { model, terms, file, input, signal }: Pick<MediaCall, "model" | "terms" | "file" | "input" | "signal">,
    within: Micros | undefined,
  ): Promise<readonly Tensor[]> {
    const end = begun.beginDecoding();
    const deadline = within === undefined ? undefined : { at: begun.receivedAt + within / 1_000, within };
    try {
      return await this.#bodies.tensors({ model, app: terms.app, bytes: file, input, signal, deadline });
    } finally {
      end();
    }
  }
}

const withState = (wanted: readonly string[] | undefined, { state }: AudioInput): readonly string[] | undefined =>
  wanted === undefined || wanted.includes(state.output) ? wanted : [...wanted, state.output];

/**
 * Runs frame after frame, each with the state that the previous one returned. @returns the other outputs, a row for
 * each frame
 */
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
