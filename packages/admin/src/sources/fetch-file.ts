/** Fetches one model through the cache, and compares it with every checksum that is known of it. */
import { CommandError } from "../failure.ts";
import type { BlobCache } from "./blob-cache.ts";
import { type HttpGet, type HttpReply, TEXT_BYTES_MAX, bytesOf, httpGet, textOf } from "./http-get.ts";

/** A protobuf message, which an ONNX file is, has less than 2 GiB. */
const MODEL_BYTES_MAX = 2_147_483_647;

export interface FetchedFile {
  readonly bytes: Uint8Array;
  readonly sha256: string;
}

export interface FileAsked {
  readonly get: Omit<HttpGet, "bytesMax">;
  /** Demanded by the operator, in hexadecimal. */
  readonly sha256: string | undefined;
  /** The same as the server says it. */
  readonly declared: (headers: Headers) => string | undefined;
  /** Why the server gives no file, and what to do. */
  readonly refusal: (status: number, reply: { readonly headers: Headers; readonly text: string }) => CommandError;
  readonly cache: BlobCache;
  /** Default: a model's. */
  readonly bytesMax?: number | undefined;
}

/** @throws {CommandError} saying why there is no such file, or that it is another one */
export async function fetchFile(asked: FileAsked): Promise<FetchedFile> {
  const { get, sha256, cache, bytesMax = MODEL_BYTES_MAX } = asked;
  const demanded = sha256 === undefined ? undefined : await cache.read(sha256);
  if (demanded !== undefined) return { bytes: demanded, sha256: sha256! };
  // A demanded file that the cache lacks is no other one that the cache has.
  const known = sha256 === undefined ? await cache.known(get.url.href) : undefined;
  const bytes = known === undefined ? undefined : await cache.read(known.sha256);
  const condition = bytes === undefined ? {} : { "if-none-match": known!.etag };
  return httpGet({ ...get, headers: { ...get.headers, ...condition }, bytesMax }, async (reply) => {
    if (reply.status === 304 && bytes !== undefined) return { bytes, sha256: known!.sha256 };
    if (reply.status !== 200) throw asked.refusal(reply.status, await refusedText(reply));
    const declared = asked.declared(reply.headers);
    const file = await cache.write(reply.chunks, (found) => compare(get.label, found, { sha256, declared }));
    const etag = reply.headers.get("etag");
    if (etag !== null) await cache.remember(get.url.href, { etag, sha256: file.sha256 });
    return file;
  });
}

/**
 * Fetches a text, such as a configuration.
 *
 * @param absent - the statuses that mean that there is none
 */
export async function fetchText(
  get: Omit<HttpGet, "bytesMax">,
  refusal: FileAsked["refusal"],
  absent: readonly number[] = [],
): Promise<string | undefined> {
  return httpGet({ ...get, bytesMax: TEXT_BYTES_MAX }, async (reply) => {
    if (absent.includes(reply.status)) return undefined;
    if (reply.status !== 200) throw refusal(reply.status, await refusedText(reply));
    return textOf(reply);
  });
}

const refusedText = async (reply: HttpReply): Promise<{ readonly headers: Headers; readonly text: string }> => ({
  headers: reply.headers,
  text: new TextDecoder().decode((await bytesOf(reply)).subarray(0, 65_536)),
});

function compare(
  label: string,
  found: string,
  { sha256, declared }: { readonly sha256: string | undefined; readonly declared: string | undefined },
): void {
  if (sha256 !== undefined && found !== sha256)
    throw new CommandError(`${label} is another file: its sha256 is ${found}, and ${sha256} is demanded`);
  if (declared !== undefined && found !== declared)
    throw new CommandError(
      `${label} arrived damaged: its sha256 is ${found}, and its server says ${declared}; try again`,
    );
}

/** Hexadecimal digits of a digest in base 64; undefined for one of another length, such as of parts. */
export function hexDigest(base64: string | undefined | null): string | undefined {
  const bytes = Buffer.from(base64 ?? "", "base64");
  return bytes.byteLength === 32 ? bytes.toString("hex") : undefined;
}
