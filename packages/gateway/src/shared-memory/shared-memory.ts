/**
 * Tensors in the shared memory of this machine: Triton's extension. A client registers a file below /dev/shm and names
 * it in its requests instead of sending bytes. Bytes are copied in and out through the file's descriptor; nothing is
 * mapped, so that a truncated file is a short read and no fault.
 *
 *   SHM-1. A region is a plain file directly below the folder, owned by the user who registers it: the gateway opens no
 *          file of another user.
 *   SHM-2. A region belongs to its application, where keys identify that.
 */
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { TuttiError } from "@tutti/protocol";
import type { RegionSlice } from "../oip/given-tensors.ts";

/** Regions of one gateway, each an open file, and of one application. */
export const REGIONS_MAX = 256;
export const APP_REGIONS_MAX = 64;

/** Application that owns a region; undefined where the gateway asks for no keys: everybody's. */
export type RegionOwner = string | undefined;

export interface RegionStatus {
  readonly name: string;
  /** Name of the file, with or without a slash before it. */
  readonly key: string;
  /** Offset of the region in the file. */
  readonly offset: number;
  readonly bytes: number;
}

/** A slice of a region that a request reads or writes. */
export interface MemorySlice {
  /** Copies its bytes. @throws {TuttiError} INVALID_INPUT as a rejection: the file has changed */
  read(): Promise<Uint8Array>;
  /** @throws {TuttiError} INVALID_INPUT as a rejection: more than its bytes, or the file has changed */
  write(data: Uint8Array): Promise<void>;
}

interface Region extends RegionStatus {
  readonly owner: RegionOwner;
  readonly file: FileHandle;
}

export interface SharedMemoryOptions {
  /** If false, every call is refused. */
  readonly isOpen: boolean;
  /** Default: /dev/shm. */
  readonly folder?: string;
  readonly regionsMax?: number;
  readonly appMax?: number;
}

export class SharedMemory {
  readonly isOpen: boolean;
  readonly #folder: string;
  readonly #regionsMax: number;
  readonly #appMax: number;
  /** Regions by owner and name. */
  readonly #regions = new Map<string, Region>();

  constructor({
    isOpen,
    folder = "/dev/shm",
    regionsMax = REGIONS_MAX,
    appMax = APP_REGIONS_MAX,
  }: SharedMemoryOptions) {
    this.isOpen = isOpen;
    this.#folder = folder;
    this.#regionsMax = regionsMax;
    this.#appMax = appMax;
  }

  /**
   * Registers a region.
   *
   * @param uid - of the user who asks; undefined: not known
   * @throws {TuttiError} FORBIDDEN, INVALID_INPUT, OVERLOADED as a rejection
   */
  async register(owner: RegionOwner, status: RegionStatus, uid: number | undefined): Promise<void> {
    this.#check(owner, status.name);
    const path = `${this.#folder}/${fileNameOf(status.key)}`;
    const file = await open(path, constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(
      (error: unknown) => {
        throw unopened(status.key, (error as NodeJS.ErrnoException).code ?? "");
      },
    );
    try {
      await checkFile(file, status, uid);
      this.#check(owner, status.name); // Another may have been registered meanwhile.
      const { name, key, offset, bytes } = status;
      this.#regions.set(idOf(owner, name), { owner, name, key, offset, bytes, file });
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /**
   * Unregisters regions. A request in flight that names one fails, or still uses it.
   *
   * @param name - undefined: all of this owner. An unknown name is ignored
   * @throws {TuttiError} FORBIDDEN as a rejection
   */
  async unregister(owner: RegionOwner, name: string | undefined): Promise<void> {
    this.checkOpen();
    for (const [id, region] of [...this.#regions]) {
      if (region.owner !== owner || (name !== undefined && region.name !== name)) continue;
      this.#regions.delete(id);
      await region.file.close();
    }
  }

  /**
   * Lists regions.
   *
   * @param name - undefined: all of this owner
   * @throws {TuttiError} FORBIDDEN, NOT_FOUND
   */
  status(owner: RegionOwner, name: string | undefined): RegionStatus[] {
    this.checkOpen();
    const own = [...this.#regions.values()].filter((region) => region.owner === owner);
    const found = name === undefined ? own : own.filter((region) => region.name === name);
    if (name !== undefined && found.length === 0) throw new TuttiError("TUTTI_NOT_FOUND", noRegion(name));
    return found.map((region) => ({ name: region.name, key: region.key, offset: region.offset, bytes: region.bytes }));
  }

  /** @throws {TuttiError} FORBIDDEN, INVALID_INPUT for a slice outside the regions of this owner */
  slice(owner: RegionOwner, { region: name, offset, bytes }: RegionSlice): MemorySlice {
    this.checkOpen();
    const region = this.#regions.get(idOf(owner, name));
    if (region === undefined) throw invalid(noRegion(name));
    if (offset + bytes > region.bytes)
      throw invalid(
        `${bytes} bytes from ${offset} on end beyond the shared memory region "${name}" of ${region.bytes}`,
      );
    const at = region.offset + offset;
    return {
      read: () => guarded(name, () => readAll(region.file, at, bytes)),
      write: (data) => {
        if (data.byteLength > bytes)
          throw invalid(`an output of ${data.byteLength} bytes is more than the ${bytes} in the region "${name}"`);
        return guarded(name, () => writeAll(region.file, at, data));
      },
    };
  }

  async close(): Promise<void> {
    const regions = [...this.#regions.values()];
    this.#regions.clear();
    for (const { file } of regions) await file.close();
  }

  /** @throws {TuttiError} FORBIDDEN: shared memory is not enabled */
  checkOpen(): void {
    if (!this.isOpen)
      throw new TuttiError(
        "TUTTI_FORBIDDEN",
        "shared memory is not served: send tensors' bytes, or have the gateway started with --system-shared-memory",
      );
  }

  #check(owner: RegionOwner, name: string): void {
    this.checkOpen();
    if (this.#regions.has(idOf(owner, name)))
      throw invalid(`a shared memory region "${name}" is registered already: unregister it first`);
    const own = [...this.#regions.values()].filter((region) => region.owner === owner).length;
    if (this.#regions.size >= this.#regionsMax || (owner !== undefined && own >= this.#appMax))
      throw new TuttiError(
        "TUTTI_OVERLOADED",
        `as many shared memory regions are registered as may be (REGIONS_MAX, APP_REGIONS_MAX): unregister some`,
        { retryAfterMs: 1_000 },
      );
  }
}

const idOf = (owner: RegionOwner, name: string): string => JSON.stringify([owner ?? null, name]);
const noRegion = (name: string): string => `no shared memory region "${name}" is registered`;

/** @throws {TuttiError} INVALID_INPUT */
function fileNameOf(key: string): string {
  const name = /^\/?([^/\0]{1,255})$/.exec(key)?.[1];
  if (name !== undefined && name !== "." && name !== "..") return name;
  throw invalid(`"${key.slice(0, 80)}" is no key of shared memory: "/name", or "name", without further slashes`);
}

/** Checks a file (SHM-1). @throws {TuttiError} FORBIDDEN, INVALID_INPUT as a rejection */
async function checkFile(
  file: FileHandle,
  { key, offset, bytes }: RegionStatus,
  uid: number | undefined,
): Promise<void> {
  const stat = await file.stat();
  // A second name of a file may have been made by a user who may not open it.
  if (!stat.isFile() || stat.nlink !== 1) throw invalid(`the shared memory "${key}" is no plain file with one name`);
  if (uid === undefined)
    throw new TuttiError(
      "TUTTI_FORBIDDEN",
      "which user registers shared memory is not known: connect to the gateway itself, over loopback of the same host",
    );
  if (stat.uid !== uid)
    throw new TuttiError("TUTTI_FORBIDDEN", `the shared memory "${key}" is not of the user who registers it`);
  if (offset + bytes > stat.size)
    throw invalid(`the shared memory "${key}" has ${stat.size} bytes, and the region would end at ${offset + bytes}`);
}

function unopened(key: string, code: string): TuttiError {
  const shown = key.slice(0, 80);
  if (code === "ENOENT") return invalid(`there is no shared memory "${shown}" on the gateway's machine`);
  if (code === "ELOOP") return invalid(`the shared memory "${shown}" is a link`);
  if (code === "EACCES" || code === "EPERM")
    return new TuttiError(
      "TUTTI_FORBIDDEN",
      `the gateway's user may not read and write the shared memory "${shown}": run both as one user, or give it the right`,
    );
  return invalid(`the shared memory "${shown}" can't be opened (${code})`);
}

async function guarded<Result>(name: string, use: () => Promise<Result>): Promise<Result> {
  try {
    return await use();
  } catch (error) {
    if (error instanceof TuttiError) throw error;
    throw invalid(
      `the shared memory region "${name}" can't be used any more: it was unregistered, or its file changed`,
    );
  }
}

async function readAll(file: FileHandle, at: number, bytes: number): Promise<Uint8Array> {
  const data = new Uint8Array(bytes);
  for (let done = 0; done < bytes;) {
    const { bytesRead } = await file.read(data, done, bytes - done, at + done);
    if (bytesRead === 0) throw new Error("the file ends");
    done += bytesRead;
  }
  return data;
}

async function writeAll(file: FileHandle, at: number, data: Uint8Array): Promise<void> {
  for (let done = 0; done < data.byteLength;)
    done += (await file.write(data, done, data.byteLength - done, at + done)).bytesWritten;
}

const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
