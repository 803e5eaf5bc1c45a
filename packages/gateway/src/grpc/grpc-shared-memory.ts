/** Triton's system shared memory extension over gRPC. */
import type { AddressInfo } from "node:net";
import { TuttiError } from "@tutti/protocol";
import { isWhole } from "../oip/given-tensors.ts";
import { type Connection, peerUid } from "../shared-memory/peer-uid.ts";
import type { RegionOwner, SharedMemory } from "../shared-memory/shared-memory.ts";

/** A region in the form of @grpc/proto-loader with `longs: String`. */
export interface WireRegion {
  readonly name: string;
  readonly key: string;
  readonly offset: string;
  readonly byte_size: string;
}

/** Name of a region; an empty one means all. */
const nameOf = ({ name }: Pick<WireRegion, "name">): string | undefined => (name === "" ? undefined : name);

/** @throws {TuttiError} FORBIDDEN, NOT_FOUND */
export function memoryStatus(memory: SharedMemory, owner: RegionOwner, asked: Pick<WireRegion, "name">): object {
  const regions = memory.status(owner, nameOf(asked)).map(({ name, key, offset, bytes }) => {
    return [name, { name, key, offset: String(offset), byte_size: String(bytes) } satisfies WireRegion] as const;
  });
  return { regions: Object.fromEntries(regions) };
}

/** @throws {TuttiError} as a rejection */
export async function unregisterMemory(
  memory: SharedMemory,
  owner: RegionOwner,
  asked: Pick<WireRegion, "name">,
): Promise<object> {
  await memory.unregister(owner, nameOf(asked));
  return {};
}

/**
 * Registers a region.
 *
 * @param connection - undefined: not known
 * @throws {TuttiError} as a rejection
 */
export async function registerMemory(
  memory: SharedMemory,
  owner: RegionOwner,
  { name, key, offset: from, byte_size: size }: WireRegion,
  connection: Connection | undefined,
): Promise<object> {
  memory.checkOpen();
  const [offset, bytes] = [Number(from), Number(size)];
  if (name === "" || !isWhole(offset) || !isWhole(bytes) || bytes === 0)
    throw new TuttiError("TUTTI_INVALID_INPUT", "a registration has a name, a key and a byte_size above 0");
  await memory.register(owner, { name, key, offset, bytes }, connection && (await peerUid(connection)));
  return {};
}

/**
 * Finds both ends of a client's connection.
 *
 * @param peer - `address:port`, as grpc-js has it
 * @param own - the server's address: on loopback, as shared memory demands
 */
export function connectionOf(peer: string, own: AddressInfo | string | null): Connection | undefined {
  const end = peer.lastIndexOf(":");
  if (own === null || typeof own === "string" || end < 0) return undefined;
  const remoteAddress = peer.slice(0, end).replaceAll(/[[\]]/g, "");
  const remotePort = Number(peer.slice(end + 1));
  return { remoteAddress, remotePort, localAddress: own.address, localPort: own.port };
}
