import { type DataAddress, TOKEN_BYTES } from "@tutti/protocol";
import type { DataServer } from "@tutti/ports/pull";
import type { ActorKey } from "@tutti/units";
import type { BatchCarrier } from "@tutti/actors/runtime";
import type { TensorServer } from "./tensor-server.ts";

/** The data plane of an ingress, as it is served. */
export interface ServedData extends Pick<DataServer, "pushBatch" | "close"> {
  readonly address: () => DataAddress | undefined;
  /** Whether `pushBatch` is better than a pull for rows of so many bytes together. Default: for any. */
  readonly pushes?: (byteLength: number) => boolean;
}

/** Tokens for which random bytes are made at a time. */
const TOKENS = 256;

export function carrierOf(
  ingress: ActorKey,
  parts: {
    readonly tensorServer: TensorServer;
    readonly served: ServedData;
    readonly randomBytes: (count: number) => Uint8Array;
    /** Called for each request before it is sent this way. */
    readonly onCarried: (seq: number) => void;
  },
): BatchCarrier {
  const { tensorServer, served, randomBytes, onCarried } = parts;
  let random: Uint8Array = new Uint8Array(0);
  let at = 0;
  return {
    ingress,
    takes(requests) {
      if (served.pushes === undefined) return true;
      let byteLength = 0;
      for (const { seq } of requests) byteLength += tensorServer.byteLengthOf(seq);
      return served.pushes(byteLength);
    },
    newToken() {
      if (at >= random.byteLength) {
        random = randomBytes(TOKENS * TOKEN_BYTES);
        at = 0;
      }
      return random.slice(at, (at += TOKEN_BYTES));
    },
    carry(batch, batcher) {
      const [group] = batch.ingresses;
      if (served.pushBatch === undefined || group === undefined) return false;
      const { executor, gpu, thread, batchId } = batch;
      const seqs = batch.requests.map(({ seq }) => seq);
      const rows = tensorServer.take({ executor, gpu, thread, batchId, batcher, token: group.token, seqs });
      // Rows that can't be sent count too: until the executor has pulled them, it is unknown whether it accepts the
      // batch.
      for (const { seq, row } of rows) if (row !== undefined) onCarried(seq);
      return served.pushBatch(batch, batcher, rows);
    },
  };
}
