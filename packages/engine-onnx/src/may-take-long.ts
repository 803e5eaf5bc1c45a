import type { ModelSpec } from "@tutti/protocol";
import { bufferOf } from "./file-buffer.ts";

/** A node's `op_type` (field 4, four bytes) as it stands in the file, also within subgraphs and functions. */
const LOOP = Buffer.from("\x22\x04Loop", "latin1");

/** Whether a file has a Loop, whose iterations may depend on a request. */
export const hasLoop = (bytes: Uint8Array): boolean => bufferOf(bytes).includes(LOOP);

/** Whether a trial says nothing of how long runs take: a deadline for runs announces long ones. */
export const mayTakeLong = ({ runDeadline }: ModelSpec, bytes: Uint8Array): boolean =>
  runDeadline !== undefined || hasLoop(bytes);
