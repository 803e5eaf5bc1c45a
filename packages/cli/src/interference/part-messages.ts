/** Messages between the measuring process and the process of a part. */
import type { DesiredModel } from "@tutti/client/registries";

export type PartOrder =
  | { readonly kind: "load"; readonly model: DesiredModel; readonly path: string }
  /** Runs batches without a pause, for `forMs` and at least `runsMin` times. */
  | {
      readonly kind: "run";
      readonly model: string;
      readonly batchSize: number;
      readonly forMs: number;
      readonly runsMin: number;
    }
  /** Measures how fast memory is copied. */
  | { readonly kind: "copy"; readonly bytes: number; readonly times: number };

export type PartAnswer =
  | { readonly kind: "started" }
  | { readonly kind: "loaded" }
  /** Latencies in ms, without the first and the last run. */
  | { readonly kind: "ran"; readonly runs: readonly number[] }
  | { readonly kind: "copied"; readonly bytesPerSecond: number }
  | { readonly kind: "failed"; readonly reason: string };
