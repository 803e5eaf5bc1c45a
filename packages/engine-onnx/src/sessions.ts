/**
 * The sessions of one model file: one, or with convolutions on CUDA one for each size that batches run in.
 *
 * onnxruntime keeps cuDNN's plan of a convolution for the latest shape only, and makes it anew whenever the shape
 * changes: a ResNet-50 on an H200 took 50 to 600 ms for its next batch size, and 3 to 13 ms for a batch of the same
 * one. So such a model runs in few sizes (run-sizes.ts), each in a session that sees no other. Its weights are on the
 * GPU once for each.
 */
import ort from "./onnxruntime.ts";
import { type SessionSettings, sessionOptions } from "./provider.ts";
import { runSizeOf, runSizesOf } from "./run-sizes.ts";

type Session = ort.InferenceSession;

export interface SessionSource {
  readonly bytes: Uint8Array;
  readonly settings: SessionSettings;
  readonly batchSizeMax: number;
  /** Default: onnxruntime's. */
  readonly create?: (bytes: Uint8Array, settings: SessionSettings) => Promise<Session>;
}

export class Sessions {
  /** Made when the file was loaded, whose metadata hold for all. */
  readonly first: Session;
  readonly #batchSizeMax: number;
  /** Makes a further one. Undefined: the first runs every size. */
  readonly #further: (() => Promise<Session>) | undefined;
  readonly #bySize = new Map<number, Session>();

  private constructor(first: Session, further: (() => Promise<Session>) | undefined, batchSizeMax: number) {
    this.first = first;
    this.#further = further;
    this.#batchSizeMax = batchSizeMax;
  }

  /** Rejects with onnxruntime's error if the file can't be loaded. */
  static async create({ bytes, settings, batchSizeMax, create = createSession }: SessionSource): Promise<Sessions> {
    const make = (): Promise<Session> => create(bytes, settings);
    return new Sessions(await make(), hasRunSizes(settings, bytes) ? make : undefined, batchSizeMax);
  }

  /** In how many rows a batch of `batchSize` runs. */
  rowsOf(batchSize: number): number {
    return this.#further === undefined ? batchSize : runSizeOf(batchSize, this.#batchSizeMax);
  }

  /** The session for batches of `rows`, one of the sizes of `rowsOf`. */
  async of(rows: number): Promise<Session> {
    if (this.#further === undefined) return this.first;
    const known = this.#bySize.get(rows);
    if (known !== undefined) return known;
    const session = this.#bySize.size === 0 ? this.first : await this.#further();
    this.#bySize.set(rows, session);
    return session;
  }

  async release(): Promise<void> {
    for (const session of new Set([this.first, ...this.#bySize.values()])) await session.release();
  }
}

/** Sizes in which a model's batches run; undefined: in any. */
export const runSizesOfModel = (settings: SessionSettings, model: { bytes: Uint8Array; batchSizeMax: number }) =>
  hasRunSizes(settings, model.bytes) ? runSizesOf(model.batchSizeMax) : undefined;

/** `op_type: "Conv"` of a NodeProto, as the file has it. Weights that look like it cost memory alone. */
const CONVOLUTION = Buffer.from("\x22\x04Conv");
const hasRunSizes = ({ provider }: SessionSettings, bytes: Uint8Array): boolean =>
  provider === "cuda" && Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).includes(CONVOLUTION);

const createSession = (bytes: Uint8Array, settings: SessionSettings): Promise<Session> =>
  ort.InferenceSession.create(bytes, sessionOptions(settings, bytes));
