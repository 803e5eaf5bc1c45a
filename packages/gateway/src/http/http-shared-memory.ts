/** Triton's system shared memory extension over HTTP. */
import type { IncomingMessage } from "node:http";
import { TuttiError } from "@tutti/protocol";
import { fromOutsideJson } from "@tutti/wire";
import { isWhole } from "../oip/given-tensors.ts";
import { peerUid } from "../shared-memory/peer-uid.ts";
import type { RegionOwner, RegionStatus, SharedMemory } from "../shared-memory/shared-memory.ts";
import type { HttpAnswer } from "./answers.ts";
import type { BodyReader } from "./body-reader.ts";

export interface MemoryCall {
  readonly request: IncomingMessage;
  readonly owner: RegionOwner;
  /** Undefined: all. */
  readonly region: string | undefined;
}

/** Largest body of a registration: a name, a key and two numbers. */
const REGISTRATION_BYTES = 4_096;

/** @throws {TuttiError} FORBIDDEN, NOT_FOUND */
export const memoryStatus = (memory: SharedMemory, { owner, region }: MemoryCall): HttpAnswer => ({
  status: 200,
  body: memory.status(owner, region).map(({ name, key, offset, bytes }) => ({ name, key, offset, byte_size: bytes })),
});

/** @throws {TuttiError} as a rejection */
export async function unregisterMemory(memory: SharedMemory, { owner, region }: MemoryCall): Promise<HttpAnswer> {
  await memory.unregister(owner, region);
  return { status: 200, body: {} };
}

/** @throws {TuttiError} as a rejection */
export async function registerMemory(
  memory: SharedMemory,
  bodies: BodyReader,
  { request, owner, region = "" }: MemoryCall,
): Promise<HttpAnswer> {
  memory.checkOpen(); // before the body is read
  const wanted = await bodies.withBody(request, (body) => Promise.resolve(readRegistration(region, body)));
  const { remoteAddress = "", remotePort = 0, localAddress = "", localPort = 0 } = request.socket;
  await memory.register(owner, wanted, await peerUid({ remoteAddress, remotePort, localAddress, localPort }));
  return { status: 200, body: {} };
}

/** @throws {TuttiError} INVALID_INPUT, TOO_LARGE */
function readRegistration(name: string, body: Uint8Array): RegionStatus {
  if (body.byteLength > REGISTRATION_BYTES)
    throw new TuttiError("TUTTI_TOO_LARGE", `a registration has at most ${REGISTRATION_BYTES} bytes`);
  const { key, offset = 0, byte_size: bytes } = Object(fromOutsideJson(body)) as Readonly<Record<string, unknown>>;
  if (typeof key === "string" && isWhole(offset) && isWhole(bytes) && bytes > 0) return { name, key, offset, bytes };
  throw new TuttiError(
    "TUTTI_INVALID_INPUT",
    "a registration is an object with a key, a byte_size above 0 and perhaps an offset, in whole bytes",
  );
}
