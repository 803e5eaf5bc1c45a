import { type BatchDispatched, type DataAddress, TOKEN_BYTES } from "@tutti/protocol";
import type { DataServer } from "@tutti/ports/pull";
import type { ActorKey } from "@tutti/units";
import type { TensorServer } from "./tensor-server.ts";

/** An ingress' data plane as it is served. */
export interface ServedData extends Pick<DataServer, "pushBatch" | "close"> {
  readonly address: () => DataAddress | undefined;
}

/**
 * Sends batches of this process' batcher together with their rows, as if their executor had pulled them already (T2).
 */
export interface BatchCarrier {
  readonly ingress: ActorKey;
  /** For a batch that will be carried: nobody could guess it. */
  newToken(): Uint8Array;
  /** @param batch - with such a token. @returns false: it could not, and the executor must pull */
  carry(batch: BatchDispatched, batcher: ActorKey): boolean;
}

/** Random bytes are made for so many tokens at a time. */
const TOKENS = 256;

export function carrierOf(
  ingress: ActorKey,
  parts: {
    readonly tensorServer: TensorServer;
    readonly served: ServedData;
    readonly randomBytes: (count: number) => Uint8Array;
    /** Told of each request that is sent so, before it is. */
    readonly onCarried: (seq: number) => void;
  },
): BatchCarrier {
  const { tensorServer, served, randomBytes, onCarried } = parts;
  let random: Uint8Array = new Uint8Array(0);
  let at = 0;
  return {
    ingress,
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
      // Also where they can't be sent: until the executor has pulled them, nobody knows whether it accepts the batch.
      for (const { seq, row } of rows) if (row !== undefined) onCarried(seq);
      return served.pushBatch(batch, batcher, rows);
    },
  };
}
