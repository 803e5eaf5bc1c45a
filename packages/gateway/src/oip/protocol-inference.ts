/**
 * One inference of the protocol, over HTTP or gRPC. Features that exist in the protocol only are translated here, so
 * that the cluster sees numbers.
 */
import type { CancelSignal } from "@tutti/client";
import { type ModelSpec, type Tensor, TuttiError } from "@tutti/protocol";
import type { Access } from "../auth/access.ts";
import type { ClientBytes } from "../client-bytes.ts";
import { BODY_BYTES_MAX, type BodyReader } from "../http/body-reader.ts";
import type { MediaInference } from "../media/media-inference.ts";
import type { MemorySlice, RegionOwner, SharedMemory } from "../shared-memory/shared-memory.ts";
import { type OutputTensor, textElements } from "./bytes-elements.ts";
import { classified } from "./classification.ts";
import { type GivenTensor, type RegionSlice, isBytes, isNumeric } from "./given-tensors.ts";
import type { WantedOutput } from "./infer-head.ts";
import { type InferCall, type InferOutcome, type Inference, type ModelOf, modelNamed } from "./inference.ts";
import { fileOf, mediaOf, numbersOf } from "./input-numbers.ts";
import { type RequestTerms, termsLeft } from "./request-terms.ts";
import type { Sequences } from "./sequences.ts";
import { inferInSequence } from "./state-inference.ts";

export interface ProtocolCall {
  readonly model: string;
  readonly version: string | undefined;
  readonly id: string | undefined;
  readonly inputs: readonly GivenTensor[];
  /** Undefined, or an empty list, as some clients send it: all. */
  readonly outputs: readonly WantedOutput[] | undefined;
  /** The application of the request's key, whose quota it uses, and whose regions of shared memory it may name. */
  readonly owner: RegionOwner;
  /** Account to which bytes are charged. */
  readonly client: ClientBytes;
  readonly terms: RequestTerms;
  /** When its first byte came, by `performance.now()`. Default: now. */
  readonly receivedAt?: number;
  /** Aborts when the client disconnects. */
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
  readonly memory: SharedMemory;
  /** Undefined: the gateway asks for no keys, and applications have no quotas. */
  readonly access: Pick<Access, "hold"> | undefined;
  /** Counts a request's memory beside its body. */
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
    const isPlain = call.terms.sequence === undefined && outputs.every(isSentWhole);
    if (isPlain && inputs.every(isNumeric)) return withTexts(await inference.infer({ ...call, inputs, wanted }));
    const spec = modelNamed(modelOf, call.model, call.version)?.spec;
    const slots = this.#slotsOf(call);
    return this.#holding(call, bytesBeside(inputs), async () => {
      const outcome = await this.#inTurn(spec, { ...call, wanted });
      const { texts, outputs: made } = outcome;
      const placed = made.map((output) => place(spec, output, { slot: slots.get(output.name), texts }));
      return { ...outcome, outputs: await Promise.all(placed) };
    });
  }

  /** Destinations of outputs that are not sent as they are. Regions are checked before the model runs. */
  #slotsOf({ outputs = [], owner }: ProtocolCall): ReadonlyMap<string, Slot> {
    const { memory } = this.#parts;
    return new Map(
      outputs.map(({ name, classes, slice }) => {
        const file = slice === undefined ? undefined : { ...slice, ...memory.slice(owner, slice) };
        return [name, { classes, file }] as const;
      }),
    );
  }

  /** Takes a sequence's turn before the first await, so that its requests stay in their order. */
  #inTurn(spec: ModelSpec | undefined, call: NamedCall): Promise<InferOutcome> {
    const { sequence } = call.terms;
    if (sequence === undefined) return this.#ask(spec, call);
    const file = call.inputs.find(isBytes);
    if (file !== undefined) throw wholeFile(file.name);
    const { inputs } = call;
    return inferInSequence(this.#parts, spec, sequence, { ...call, inputs: () => this.#numbersOf(spec, inputs, call) });
  }

  async #ask(spec: ModelSpec | undefined, call: NamedCall): Promise<InferOutcome> {
    const { inference, media } = this.#parts;
    const given = spec === undefined ? undefined : call.inputs.find(isBytes);
    if (spec === undefined || given === undefined) {
      const startedAt = performance.now();
      const inputs = await this.#numbersOf(spec, call.inputs, call);
      const terms = termsLeft(call.terms, spec?.slo, performance.now() - startedAt);
      return inference.infer({ ...call, inputs, terms });
    }
    const input = mediaOf(spec, given);
    const receivedAt = call.receivedAt ?? performance.now();
    const rest = call.inputs.filter((one) => one !== given);
    const [read, others] = await Promise.all([this.#read(given, call), this.#numbersOf(spec, rest, call)]);
    return media.infer({ ...call, file: fileOf(read), input, others, slo: spec.slo, receivedAt });
  }

  /** @throws {TuttiError} as a rejection */
  #numbersOf(
    spec: ModelSpec | undefined,
    inputs: readonly GivenTensor[],
    call: Pick<ProtocolCall, "owner">,
  ): Promise<Tensor[]> {
    return Promise.all(inputs.map(async (input) => numbersOf(spec, await this.#read(input, call))));
  }

  /** The tensor with its bytes, copied from shared memory where they are there. */
  async #read(input: GivenTensor, { owner }: Pick<ProtocolCall, "owner">): Promise<GivenTensor> {
    const { name, type, dims, slice } = input;
    if (slice === undefined) return input;
    return { name, type, dims, data: await this.#parts.memory.slice(owner, slice).read() };
  }

  /** @throws {TuttiError} OVERLOADED, QUOTA_EXCEEDED, TOO_LARGE as a rejection: there is no room */
  async #holding<Result>({ owner, client }: ProtocolCall, bytes: number, use: () => Promise<Result>): Promise<Result> {
    if (bytes === 0) return use();
    const { access, bodies } = this.#parts;
    const giveBack = owner === undefined ? undefined : access?.hold(owner, bytes);
    try {
      if (!bodies.hold(bytes, client)) throw bodies.full();
      try {
        return await use();
      } finally {
        bodies.release(bytes, client);
      }
    } finally {
      giveBack?.();
    }
  }
}

type NamedCall = ProtocolCall & Pick<InferCall, "wanted">;

/** Destination of an output: its greatest elements, or a slice of shared memory. */
interface Slot {
  readonly classes: number | undefined;
  readonly file: (RegionSlice & MemorySlice) | undefined;
}
const NO_SLOT: Slot = { classes: undefined, file: undefined };

/** Makes BYTES of the outputs that are text. @throws {TuttiError} TOO_LARGE */
export function withTexts({ texts, outputs, ...outcome }: InferOutcome): ProtocolOutcome {
  if (texts === undefined) return { ...outcome, outputs };
  return { ...outcome, outputs: outputs.map((output) => (texts.has(output.name) ? textElements(output) : output)) };
}

async function place(
  spec: ModelSpec | undefined,
  output: Tensor,
  { slot = NO_SLOT, texts }: { readonly slot: Slot | undefined; readonly texts: ReadonlySet<string> | undefined },
): Promise<OutputTensor> {
  const { classes, file } = slot;
  if (classes !== undefined) return classified(spec, output, classes);
  const sent = texts?.has(output.name) === true ? textElements(output) : output;
  if (file === undefined) return sent;
  const { name, type, dims, data } = sent;
  await file.write(data);
  const { region, offset } = file;
  return { name, type, dims, data: data.subarray(0, 0), slice: { region, offset, bytes: data.byteLength } };
}

const isSentWhole = ({ classes, slice }: WantedOutput): boolean => classes === undefined && slice === undefined;

const wholeFile = (name: string): TuttiError =>
  new TuttiError(
    "TUTTI_INVALID_INPUT",
    `input "${name}": a file is asked for as a whole and no part of a sequence; send frames as numbers, or leave out sequence_id`,
  );

/** Bytes held beside the body: copies from shared memory, and widened BF16. @throws {TuttiError} TOO_LARGE */
function bytesBeside(inputs: readonly GivenTensor[]): number {
  const copied = inputs.reduce((sum, { slice }) => sum + (slice?.bytes ?? 0), 0);
  if (copied > BODY_BYTES_MAX)
    throw new TuttiError(
      "TUTTI_TOO_LARGE",
      `inputs in shared memory have at most ${BODY_BYTES_MAX} bytes together, as a body has (BODY_BYTES_MAX)`,
    );
  const halves = inputs.filter(({ type }) => type === "BF16");
  return halves.reduce((sum, { data, slice }) => sum + 2 * (slice?.bytes ?? data.byteLength), copied);
}

/** Names of the outputs; undefined: all. */
const namesOf = (outputs: readonly WantedOutput[]): readonly string[] | undefined =>
  outputs.length === 0 ? undefined : outputs.map(({ name }) => name);
