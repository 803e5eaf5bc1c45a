import type { ErrorCode, ModelSpec } from "@tutti/protocol";
import type { Form } from "@tutti/wire";

/** What the ingress' main thread and its decoding worker say to each other. */
export interface DecodeRequest {
  readonly id: number;
  readonly form: Form;
  /** Transferred. */
  readonly payload: Uint8Array<ArrayBuffer>;
  readonly spec: ModelSpec;
}

export type DecodeReply =
  | {
      readonly id: number;
      readonly decoded: {
        readonly id: string | undefined;
        readonly wanted: readonly string[] | undefined;
        readonly bucket: number;
        /** Transferred. */
        readonly row: Uint8Array;
      };
    }
  | { readonly id: number; readonly failure: { readonly code: ErrorCode; readonly text: string } };
