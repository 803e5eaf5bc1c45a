import type { BatchDispatched, DataAddress, PulledItem } from "@tutti/protocol";
import type { DataHandlers, DataServer } from "@tutti/pull";
import type { ActorKey } from "@tutti/units";

/** An ingress' data plane as it is served. */
export interface ServedData extends Pick<DataServer, "pushBatch" | "close"> {
  readonly address: () => DataAddress | undefined;
}

/**
 * Sends batches of this process' batcher together with their rows, as if their executor had pulled them already: the same token is checked and
 * the same pull is noted (T2).
 *
 * @returns carries a batch; false: it could not, and the executor pulls
 */
export function carrierOf(
  handlers: DataHandlers,
  { pushBatch }: ServedData,
): (batch: BatchDispatched, batcher: ActorKey) => boolean {
  return (batch, batcher) => {
    const [group] = batch.ingresses;
    if (pushBatch === undefined || group === undefined) return false;
    const { executor, gpu, thread, batchId } = batch;
    const seqs = batch.requests.map(({ seq }) => seq);
    let rows: readonly PulledItem[] | undefined;
    handlers.onPull({ executor, gpu, thread, batchId, batcher, token: group.token, seqs }, (items) => (rows = items));
    return rows !== undefined && pushBatch(batch, batcher, rows);
  };
}
