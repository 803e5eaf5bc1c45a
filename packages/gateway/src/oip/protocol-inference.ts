/** One inference as the protocol has it, over HTTP or gRPC: what exists in the protocol only is translated here, so that the cluster sees numbers. */
import type { CancelSignal } from "@tutti/client";
import { type ModelSpec, type Tensor, TuttiError } from "@tutti/protocol";
import type { BodyReader } from "../http/body-reader.ts";
import type { MediaInference } from "../media/media-inference.ts";
import type { OutputTensor } from "./bytes-elements.ts";
import { classified } from "./classification.ts";
import { type GivenTensor, isBytes, isNumeric } from "./given-tensors.ts";
import type { WantedOutput } from "./infer-head.ts";
import { type InferCall, type InferOutcome, type Inference, type ModelOf, modelNamed } from "./inference.ts";
import { fileOf, mediaOf, numbersOf } from "./input-numbers.ts";
import type { RequestTerms } from "./request-terms.ts";
import type { Sequences } from "./sequences.ts";
import { inferInSequence } from "./state-inference.ts";

export interface ProtocolCall {
  readonly model: string;
  readonly version: string | undefined;
  readonly id: string | undefined;
  readonly inputs: readonly GivenTensor[];
  /** Undefined, or an empty list, as some clients send it: all. */
  readonly outputs: readonly WantedOutput[] | undefined;
  readonly terms: RequestTerms;
  /** The one who asked has gone. */
  readonly signal: CancelSignal;
}

export interface ProtocolOutcome {
  readonly model: string;
  readonly version: string;
  readonly outputs: readonly OutputTensor[];
}

export interface ProtocolParts {
  readonly modelOf: ModelOf;
  readonly inference: Pick<Inference, "infer">;
  readonly media: Pick<MediaInference, "infer">;
  readonly sequences: Sequences;
  /** Counts what a request becomes beside its body. */
  readonly bodies: Pick<BodyReader, "hold" | "release" | "full">;
}

export class ProtocolInference {
  readonly #parts: ProtocolParts;

  constructor(parts: ProtocolParts) {
    this.#parts = parts;
  }

  /** @throws {TuttiError} as a rejection */
  async infer(call: ProtocolCall): Promise<ProtocolOutcome> {
    const { inputs, outputs = [] } = call;
    const { inference, modelOf } = this.#parts;
    const wanted = namesOf(outputs);
    const isPlain = call.terms.sequence === undefined && outputs.every((output) => output.classes === undefined);
    if (isPlain && inputs.every(isNumeric)) return inference.infer({ ...call, inputs, wanted });
    const spec = modelNamed(modelOf, call.model, call.version)?.spec;
    const outcome = await this.#ask(spec, { ...call, wanted });
    const classes = new Map(outputs.map((output) => [output.name, output.classes] as const));
    return { ...outcome, outputs: outcome.outputs.map((output) => named(spec, output, classes.get(output.name))) };
  }

  #ask(spec: ModelSpec | undefined, call: ProtocolCall & Pick<InferCall, "wanted">): Promise<InferOutcome> {
    const { inference, media } = this.#parts;
    const { inputs, terms } = call;
    return this.#holding(wideBytesOf(inputs), () => {
      const given = inputs.find(isBytes);
      if (spec === undefined || given === undefined) {
        const numbers = { ...call, inputs: inputs.map((input) => numbersOf(spec, input)) };
        if (terms.sequence === undefined) return inference.infer(numbers);
        return inferInSequence(this.#parts, spec, terms.sequence, numbers);
      }
      if (terms.sequence !== undefined) throw wholeSound(given.name);
      const input = mediaOf(spec, given);
      const others = inputs.filter((one) => one !== given).map((one) => numbersOf(spec, one));
      return media.infer({ ...call, file: fileOf(given), input, others, slo: spec.slo });
    });
  }

  /** @throws {TuttiError} OVERLOADED as a rejection: there is no room */
  async #holding<Result>(bytes: number, use: () => Promise<Result>): Promise<Result> {
    const { bodies } = this.#parts;
    if (!bodies.hold(bytes)) throw bodies.full();
    try {
      return await use();
    } finally {
      bodies.release(bytes);
    }
  }
}

const wholeSound = (name: string): TuttiError =>
  new TuttiError(
    "TUTTI_INVALID_INPUT",
    `input "${name}": a file is asked for as a whole and no part of a sequence; send frames as numbers, or leave out sequence_id`,
  );

/** What BF16 becomes. */
const wideBytesOf = (inputs: readonly GivenTensor[]): number =>
  inputs.reduce((sum, { type, data }) => sum + (type === "BF16" ? 2 * data.byteLength : 0), 0);

const named = (spec: ModelSpec | undefined, output: Tensor, classes: number | undefined): OutputTensor =>
  classes === undefined ? output : classified(spec, output, classes);

/** Undefined: all. */
const namesOf = (outputs: readonly WantedOutput[]): readonly string[] | undefined =>
  outputs.length === 0 ? undefined : outputs.map(({ name }) => name);
