/** Messages between the engine and its session worker. Every request has an id, and gets exactly one reply with it. */
import type { EngineBatch, EngineModel, LoadOutcome, RunOutcome } from "@tutti/ports/engine";
import type { ModelSpec } from "@tutti/protocol";
import type { Provider } from "./provider.ts";
import type { NoteOptions } from "./run-note.ts";

export interface WorkerOptions {
  readonly provider: Provider;
  readonly threads: number;
  readonly device: number;
  /** File of the run note. */
  readonly note?: NoteOptions;
  /** Run counter of the other thread: odd while a run is in progress there (RunWatch). */
  readonly runs: Int32Array;
}

export type WorkerRequest =
  | {
      readonly kind: "load";
      readonly id: number;
      readonly spec: ModelSpec;
      readonly bytes: Uint8Array;
      readonly samples: EngineModel["samples"];
      /** Whether the reply must tell if the model is quick. */
      readonly isTried: boolean;
    }
  | { readonly kind: "unload"; readonly id: number; readonly name: string }
  | { readonly kind: "run"; readonly id: number; readonly batch: EngineBatch }
  | { readonly kind: "stop"; readonly id: number };

export type WorkerReply =
  /** The result of the provider's trial: `reason` undefined if it works. Sent once, before anything else. */
  | { readonly kind: "ready"; readonly reason: string | undefined }
  | { readonly kind: "loaded"; readonly id: number; readonly outcome: LoadOutcome; readonly isQuick: boolean }
  | { readonly kind: "unloaded"; readonly id: number }
  | { readonly kind: "ran"; readonly id: number; readonly outcome: RunOutcome };
