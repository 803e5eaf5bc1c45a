import type { StoredResult } from "@tutti/ports/jobs";

/** Bytes that the server adds to a message on disk: its subject, its time, a checksum. */
const OVERHEAD = 96;

/** Bytes of these headers in a message: a first line, a line each, and an empty one. */
export const headerBytes = (headers: Readonly<Record<string, string>>): number =>
  Object.entries(headers).reduce((sum, [name, value]) => sum + name.length + Buffer.byteLength(value) + 4, 12);

/** Bytes that a message takes in a stream. */
export const messageBytes = ({ headers, payload }: StoredResult): number =>
  headerBytes(headers) + payload.byteLength + OVERHEAD;
