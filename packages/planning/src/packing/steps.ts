/** Steps of packing and of epochs: they explain why a stream is where it is. */
import type { Obstacle, PackedNode, Share } from "./node.ts";
import type { Alone } from "./stream.ts";

export type PackingStep =
  /** C1: a node of its own for full batches of the stream, one after the other. */
  | (Share & { readonly kind: "saturated"; readonly node: number; readonly batchSize: number })
  /** C2, second hole: the rate is just below what a node carries, and smaller batches can't sustain it. */
  | (Share & { readonly kind: "just-below"; readonly node: number; readonly batchSize: number })
  /** C3: merged into the node that it fills most. `before` and `after` are that node. */
  | (Share & {
      readonly kind: "merged";
      readonly alone: Alone;
      readonly before: PackedNode;
      readonly after: PackedNode;
      /** Number of nodes that it would have fitted into, this one included. */
      readonly choices: number;
    })
  /** A new node is opened, as no open node had room. */
  | (Share & {
      readonly kind: "opened";
      readonly alone: Alone;
      readonly node: number;
      readonly refusals: readonly { readonly node: number; readonly why: Obstacle }[];
    })
  | EpochStep;

/** Steps of an epoch (C4), in their order. */
export type EpochStep =
  | (Share & { readonly kind: "kept"; readonly before: number })
  | (Share & { readonly kind: "lowered" | "raised"; readonly node: number; readonly before: number })
  | (Share & { readonly kind: "evicted"; readonly node: number; readonly why: Obstacle })
  | { readonly kind: "released"; readonly node: number };

export type OnPackingStep = (step: PackingStep) => void;
