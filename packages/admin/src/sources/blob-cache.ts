/**
 * Files that were fetched, by their SHA-256, so that a restart fetches none of them again.
 *
 *   CACHE-1. A blob appears under its digest only when it is complete and has it: it is written beside, and renamed.
 *   CACHE-2. What is read is hashed again: a damaged blob is removed and counts as absent.
 *   CACHE-3. After a write the blobs take no more than `bytesMax`; those that were used longest ago go first.
 */
import { createHash, randomUUID } from "node:crypto";
import { open, readFile, readdir, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseBytes } from "@tutti/units";
import { runRoot } from "../cluster/find-cluster.ts";
import { CommandError, usageError } from "../failure.ts";
import { makeFolder } from "../make-folder.ts";

/** The file that a place held when it was asked last. */
export interface KnownFile {
  readonly etag: string;
  readonly sha256: string;
}

const CACHE_BYTES = "20GB";
/** Files of a write that a killed process has left behind. */
const LEFTOVER_MS = 86_400_000;
/** Digests of places are small; the blobs count. */
const KNOWN_MAX = 1_024;

export function sharedCache(env: NodeJS.ProcessEnv = process.env): BlobCache {
  const size = env["TUTTI_MODEL_CACHE_SIZE"] || CACHE_BYTES;
  const bytesMax = size === "0" ? 0 : parseBytes(size);
  if (bytesMax === undefined) throw usageError(`TUTTI_MODEL_CACHE_SIZE=${size}: a size, such as 20GB, or 0`);
  return new BlobCache(env["TUTTI_MODEL_CACHE"] || join(runRoot(env), "../models/fetched"), bytesMax);
}

export class BlobCache {
  readonly #blobs: string;
  readonly #known: string;
  readonly #bytesMax: number;

  constructor(folder: string, bytesMax: number) {
    this.#blobs = join(folder, "sha256");
    this.#known = join(folder, "known");
    this.#bytesMax = bytesMax;
  }

  async read(sha256: string): Promise<Uint8Array | undefined> {
    const path = join(this.#blobs, sha256);
    const bytes = await readFile(path).catch(() => undefined);
    if (bytes === undefined) return undefined;
    if (createHash("sha256").update(bytes).digest("hex") !== sha256) {
      await rm(path, { force: true });
      return undefined;
    }
    const now = new Date();
    await utimes(path, now, now).catch(() => undefined); // another process may just have removed it
    return viewOf(bytes);
  }

  /**
   * Keeps what comes, once it is complete.
   *
   * @param check - throws where the digest isn't the one that was promised: then nothing is kept
   * @throws {CommandError} the disk refuses it
   */
  async write(
    chunks: AsyncIterable<Uint8Array>,
    check: (sha256: string) => void,
  ): Promise<{ readonly sha256: string; readonly bytes: Uint8Array }> {
    const part = join(this.#blobs, `${randomUUID()}.part`);
    try {
      await onDisk(this.#blobs, async () => makeFolder(this.#blobs));
      const file = await onDisk(part, () => open(part, "wx", 0o600));
      const hash = createHash("sha256");
      try {
        for await (const chunk of chunks) {
          hash.update(chunk);
          await onDisk(part, () => file.writeFile(chunk));
        }
        await onDisk(part, () => file.sync());
      } finally {
        await file.close();
      }
      const sha256 = hash.digest("hex");
      check(sha256);
      const bytes = viewOf(await onDisk(part, () => readFile(part)));
      if (bytes.byteLength <= this.#bytesMax) await onDisk(part, () => rename(part, join(this.#blobs, sha256)));
      await onDisk(this.#blobs, () => this.#evict(sha256));
      return { sha256, bytes };
    } finally {
      await rm(part, { force: true }).catch(() => undefined); // the error that led here says more
    }
  }

  async known(place: string): Promise<KnownFile | undefined> {
    try {
      const { etag, sha256 } = JSON.parse(await readFile(this.#pathOf(place), "utf8")) as Partial<KnownFile>;
      return typeof etag === "string" && /^[0-9a-f]{64}$/.test(sha256 ?? "") ? { etag, sha256: sha256! } : undefined;
    } catch {
      return undefined; // it was never asked, or the file is torn: the place is asked again
    }
  }

  remember(place: string, file: KnownFile): Promise<void> {
    return onDisk(this.#known, () => this.#note(place, file));
  }

  async #note(place: string, file: KnownFile): Promise<void> {
    makeFolder(this.#known);
    const path = this.#pathOf(place);
    const part = `${path}.${randomUUID()}.part`;
    await writeFile(part, JSON.stringify(file), { mode: 0o600 });
    await rename(part, path);
    for (const { path: old } of (await filesIn(this.#known)).slice(0, -KNOWN_MAX)) await rm(old, { force: true });
  }

  /** A place may hold a signature in its query, so only its digest is written down. */
  #pathOf(place: string): string {
    return join(this.#known, `${createHash("sha256").update(place).digest("hex")}.json`);
  }

  async #evict(newest: string): Promise<void> {
    const files = await filesIn(this.#blobs);
    let total = files.reduce((sum, { bytes }) => sum + bytes, 0);
    for (const { path, bytes, usedMs } of files) {
      const isLeftover = path.endsWith(".part");
      const isDue = isLeftover ? Date.now() - usedMs > LEFTOVER_MS : total > this.#bytesMax && !path.endsWith(newest);
      if (!isDue) continue;
      await rm(path, { force: true });
      total -= bytes;
    }
  }
}

/** A copy would hold gigabytes twice. */
const viewOf = ({ buffer, byteOffset, byteLength }: Buffer): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);

/** Files with the longest unused first. */
async function filesIn(folder: string): Promise<{ path: string; bytes: number; usedMs: number }[]> {
  const paths = (await readdir(folder)).map((name) => join(folder, name));
  const files = await Promise.all(
    paths.map(async (path) => {
      const entry = await stat(path).catch(() => undefined); // another process may just have removed it
      return entry === undefined ? [] : [{ path, bytes: entry.size, usedMs: entry.mtimeMs }];
    }),
  );
  return files.flat().sort((a, b) => a.usedMs - b.usedMs);
}

async function onDisk<T>(path: string, act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    const { code = (error as Error).message } = error as NodeJS.ErrnoException;
    throw new CommandError(
      `${path} can't be written (${code}): make room, or name another folder in TUTTI_MODEL_CACHE`,
    );
  }
}
