import type { ObjectResult, ObjectStore } from "@nats-io/obj";

/** Longest wait for the next chunk; then the file is requested anew. */
const STALLED_MS = 2_000;
const ATTEMPTS_MAX = 10;

/**
 * Reads a whole file of the object store. It does not use the library's `getBlob`: where the file is deleted or
 * replaced between its description and its chunks, that one waits for ever for chunks which no longer exist.
 *
 * @returns null where there is no file
 * @throws where attempts keep stalling, or the content does not match its digest
 */
export async function readFile(
  objects: Pick<ObjectStore, "get">,
  name: string,
  stalledMs = STALLED_MS,
): Promise<Uint8Array | null> {
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
    const found = await objects.get(name);
    if (found === null) return null;
    const bytes = await bytesOf(found, stalledMs);
    if (bytes !== undefined) return bytes;
  }
  throw new Error(`${name}: none of it came for ${stalledMs} ms, ${ATTEMPTS_MAX} times`);
}

/** @returns undefined when it stalls */
async function bytesOf({ info, data, error }: ObjectResult, stalledMs: number): Promise<Uint8Array | undefined> {
  const failed = error.then(
    (reason) => reason,
    (reason: unknown) => reason,
  );
  const bytes = new Uint8Array(info.size);
  const reader = data.getReader();
  for (let length = 0; ;) {
    const step = await within(stalledMs, reader.read());
    if (step === undefined) {
      await reader.cancel();
      return undefined;
    }
    if (step.done) break;
    bytes.set(step.value, length);
    length += step.value.length;
  }
  const reason: unknown = await failed;
  if (reason instanceof Error) throw reason;
  return bytes;
}

async function within<T>(ms: number, promise: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => (timer = setTimeout(resolve, ms, undefined)));
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
