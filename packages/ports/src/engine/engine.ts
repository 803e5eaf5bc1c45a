import type { ModelSpec, Tensor } from "@tutti/protocol";
import type { Micros } from "@tutti/units";

/**
 * The engine port: what runs batches on one accelerator. Batches run one at a time, in the order given; several may be
 * queued so that the accelerator never waits for its process. A run can't be cancelled: cancelling is ending the
 * process.
 */
export interface Engine {
  /** The executor type, which profiles are kept by: `onnx-cpu`, `onnx-cuda-h200`, `emulated`. */
  readonly type: string;
  /**
   * The first run of each shape takes longer than those after it, so an executor runs every one once before it serves.
   */
  readonly cold?: boolean;
  /**
   * Run time of a loaded model's batches where it is known without running any: of emulated accelerators. Absent or
   * undefined: it is measured.
   */
  latencyOf?(model: string, bucket: number, batchSize: number): Micros | undefined;
  /**
   * Sizes that a loaded model's batches are filled up to, ascending, with its largest batch the last. Absent or
   * undefined: every batch runs as it is.
   */
  runSizes?(model: string): readonly number[] | undefined;
  /** Bytes of memory that it holds now, from whose growth in runs their memory is known. Absent: unknown. */
  residentBytes?(): number;
  /** Checks the file's sha256, then makes the model ready to run. Loading a name again replaces it. */
  load(model: EngineModel, done: (outcome: LoadOutcome) => void): void;
  /** Batches of it that are queued still run. */
  unload(name: string, done: () => void): void;
  run(batch: EngineBatch, done: (outcome: RunOutcome) => void): void;
  /** Lets what is queued finish, then frees everything. */
  stop(done: () => void): void;
}

export interface EngineModel {
  readonly spec: ModelSpec;
  /** The model file; undefined for an emulated model. Borrowed until `done`. */
  readonly bytes: Uint8Array | undefined;
  /** Inputs of real rows, for checks that compare answers: those of the first bucket. */
  readonly samples?: readonly (readonly Tensor[])[] | undefined;
}
export type LoadOutcome =
  | { readonly kind: "loaded"; readonly memoryBytes: number }
  /** `reason`: without the model's name, which whoever tells it adds. `fault`: as of a run. */
  | { readonly kind: "failed"; readonly reason: string; readonly fault?: boolean };

export interface EngineBatch {
  readonly model: string;
  readonly bucket: number;
  readonly batchSize: number;
  /**
   * One tensor per input of the spec and per made one (fedInputs), in its order, dims with the batch axis = batchSize.
   * Each `data` spans its own ArrayBuffer (offset 0), which is transferred to the engine: the caller has lost it when
   * `run` returns. Constants are the engine's business.
   */
  readonly inputs: readonly Tensor[];
  /** How long each row is (docs/messages.md, Tutti-Size), where the model has padded axes. */
  readonly units?: readonly number[];
}

/** Rows of one variant in a family's batch. */
export interface RowGroup {
  readonly variant: number;
  /** Their places in the batch, in the order of the outputs' rows. */
  readonly rows: readonly number[];
  readonly outputs: readonly Tensor[];
}

export type RunOutcome =
  | {
      readonly kind: "ran";
      /** The run alone, without queueing, as measured where it ran. */
      readonly run: Micros;
      /**
       * One tensor per output, for the whole batch; `data` is owned by the receiver. dims are the real ones. A family
       * has none: see `groups`.
       */
      readonly outputs: readonly Tensor[];
      /**
       * For a family, the outputs of each variant over its rows. Every row that did not fail is in exactly one group.
       */
      readonly groups?: readonly RowGroup[];
      /** Rows that could not be computed, each with its reason; their part of `outputs` means nothing. */
      readonly failedRows: readonly { readonly row: number; readonly reason: string }[];
    }
  /** The whole batch failed (`fault`: the engine is unusable, so the executor must exit and be started again). */
  | {
      readonly kind: "failed";
      readonly reason: string;
      readonly fault: boolean;
      /** The model was unloaded before the batch's turn came: nothing is wrong with the batch. */
      readonly isUnloaded?: boolean;
    };
