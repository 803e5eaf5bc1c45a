/** Models on a web server. */
import { CommandError } from "../failure.ts";
import type { BlobCache } from "./blob-cache.ts";
import { type FetchedFile, type FileAsked, fetchFile, fetchText, hexDigest } from "./fetch-file.ts";
import type { Asking, HttpGet } from "./http-get.ts";
import type { ModelUrl } from "./model-url.ts";
import { netrcAuthorization } from "./netrc.ts";

type HttpsUrl = Extract<ModelUrl, { scheme: "https" }>;

export async function fetchHttps(url: HttpsUrl, cache: BlobCache, asking: Asking): Promise<FetchedFile> {
  return fetchFile({ get: await getOf(url, asking), sha256: url.sha256, declared, refusal: refusalOf(url), cache });
}

export async function fetchHttpsText(url: HttpsUrl, asking: Asking): Promise<string | undefined> {
  return fetchText(await getOf(url, asking), refusalOf(url));
}

async function getOf({ url, label }: HttpsUrl, { env, signal }: Asking): Promise<Omit<HttpGet, "bytesMax">> {
  // Plain HTTP shows a password to everybody on the way.
  const authorization = url.protocol === "https:" ? await netrcAuthorization(url.hostname, env) : undefined;
  return { url, label, signal, ...(authorization !== undefined && { secrets: { authorization } }) };
}

/** RFC 9530, and what Artifactory says instead. */
function declared(headers: Headers): string | undefined {
  const [, digest] = /\bsha-256=:([^:]+):/.exec(headers.get("repr-digest") ?? "") ?? [];
  const hex = headers.get("x-checksum-sha256") ?? "";
  return hexDigest(digest) ?? (/^[0-9a-f]{64}$/i.test(hex) ? hex.toLowerCase() : undefined);
}

const refusalOf =
  ({ label, url }: HttpsUrl): FileAsked["refusal"] =>
  (status) => {
    if (status === 401 || status === 403)
      return new CommandError(
        `${label}: access denied (HTTP ${status}): ~/.netrc (or NETRC) takes "machine ${url.hostname} login … password …"`,
      );
    if (status === 404 || status === 410) return new CommandError(`${label}: there is no such file (HTTP ${status})`);
    return new CommandError(`${label}: its server answered HTTP ${status}; try again later`);
  };
