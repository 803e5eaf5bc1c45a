/** What the measuring process and the process of a part say to each other. */
import type { DesiredModel } from "@tutti/client";

export type PartOrder =
  | { readonly kind: "load"; readonly model: DesiredModel; readonly path: string }
  /** Without a pause, for so long and at least so many times. */
  | {
      readonly kind: "run";
      readonly model: string;
      readonly batchSize: number;
      readonly forMs: number;
      readonly runsMin: number;
    }
  /** How fast memory is copied. */
  | { readonly kind: "copy"; readonly bytes: number; readonly times: number };

export type PartAnswer =
  | { readonly kind: "started" }
  | { readonly kind: "loaded" }
  /** ms, those between the first and the last. */
  | { readonly kind: "ran"; readonly runs: readonly number[] }
  | { readonly kind: "copied"; readonly bytesPerSecond: number }
  | { readonly kind: "failed"; readonly reason: string };
