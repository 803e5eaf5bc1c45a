import type { ModelSpec } from "@tutti/protocol";

/** A node's `op_type` (field 4, four bytes) as it stands in the file, also within subgraphs and functions. */
const LOOP = Buffer.from("\x22\x04Loop", "latin1");

/**
 * Whether a trial says nothing of how long runs take. The iterations of a Loop may depend on a request, and a deadline
 * for runs announces long ones.
 */
export const mayTakeLong = ({ runDeadline }: ModelSpec, bytes: Uint8Array): boolean =>
  runDeadline !== undefined || Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).includes(LOOP);
