/**
 * Models in S3, and in whatever speaks its protocol (AWS_ENDPOINT_URL). A request is an HTTPS request with a signature:
 * aws4fetch computes that, and http-get sends it as any other.
 */
import { AwsV4Signer } from "aws4fetch";
import { CommandError, usageError } from "../failure.ts";
import { type AwsCredentials, awsCredentials, awsRegion } from "./aws-credentials.ts";
import { awsProfile } from "./aws-profile.ts";
import type { BlobCache } from "./blob-cache.ts";
import { type FetchedFile, type FileAsked, fetchFile, fetchText, hexDigest } from "./fetch-file.ts";
import type { HttpGet } from "./http-get.ts";
import { type S3Url, isPlainKey } from "./model-url.ts";

export interface S3Object {
  readonly key: string;
  readonly etag: string;
}

/** A list comes in pages of a thousand. */
const PAGES_MAX = 100;
/** Credentials that end sooner are asked for anew. */
const REFRESH_MS = 300_000;
/** A machine that has none for now may get some, and asking costs a second where there is no answer. */
const NONE_HELD_MS = 60_000;

/** Buckets as one process reads them: its credentials are kept until they end. */
export class S3Source {
  readonly #env: NodeJS.ProcessEnv;
  readonly #cache: BlobCache;
  readonly #signal: AbortSignal | undefined;
  #held: { readonly credentials: AwsCredentials | undefined; readonly untilMs: number } | undefined;

  constructor(cache: BlobCache, env: NodeJS.ProcessEnv = process.env, signal?: AbortSignal) {
    this.#cache = cache;
    this.#env = env;
    this.#signal = signal;
  }

  async file(url: S3Url): Promise<FetchedFile> {
    const headers = { "x-amz-checksum-mode": "ENABLED" };
    const get = await this.#get(url, { key: url.key, headers });
    return fetchFile({ get, sha256: url.sha256, declared, refusal: this.#refusalOf(url, get), cache: this.#cache });
  }

  /** @param absent - the statuses for which it returns undefined; otherwise a missing object is an error */
  async text(url: S3Url, absent: readonly number[] = []): Promise<string | undefined> {
    const get = await this.#get(url, { key: url.key });
    return fetchText(get, this.#refusalOf(url, get), absent);
  }

  /** All objects below the prefix that `url` has as its key. */
  async list(url: S3Url): Promise<S3Object[]> {
    const found: S3Object[] = [];
    let after = "";
    for (let page = 0; page < PAGES_MAX; page++) {
      // Keys come percent-encoded, so that the reply is XML whatever they hold.
      const query = { "list-type": "2", "encoding-type": "url", prefix: url.key };
      const get = await this.#get(url, {
        key: "",
        query: { ...query, ...(after !== "" && { "continuation-token": after }) },
      });
      const text = (await fetchText(get, this.#refusalOf(url, get))) ?? "";
      if (!text.includes("<ListBucketResult")) throw new CommandError(`${url.label}: ${get.url.host} speaks no S3`);
      for (const [, entry = ""] of text.matchAll(/<Contents>(.*?)<\/Contents>/gs))
        found.push({ key: decoded(fieldOf(entry, "Key")), etag: fieldOf(entry, "ETag") });
      after = fieldOf(text, "NextContinuationToken");
      if (after === "" && fieldOf(text, "IsTruncated") === "true")
        throw new CommandError(`${url.label}: ${get.url.host} breaks its list off, without saying how it goes on`);
      if (after === "") return found.filter(({ key }) => isPlainKey(key));
    }
    throw new CommandError(`${url.label} has over ${PAGES_MAX},000 objects: give a prefix that has models only`);
  }

  async #get(
    { bucket, label }: S3Url,
    {
      key,
      query = {},
      headers = {},
    }: {
      readonly key: string;
      readonly query?: Readonly<Record<string, string>>;
      readonly headers?: Readonly<Record<string, string>>;
    },
  ): Promise<Omit<HttpGet, "bytesMax">> {
    const [region, endpoint] = await Promise.all([awsRegion(this.#env), this.#endpoint()]);
    const url = addressOf({ bucket, key, region, endpoint });
    // RFC 3986, as the signature has it: URLSearchParams writes a space as "+".
    url.search = Object.entries(query)
      .map(([name, value]) => `${name}=${encoded(value)}`)
      .join("&");
    const credentials = await this.#credentials();
    const common = { label, redirectsMax: 0, signal: this.#signal };
    if (credentials === undefined) return { ...common, url, headers };
    const { accessKeyId, secretAccessKey, sessionToken } = credentials;
    const signer = new AwsV4Signer({
      ...{ method: "GET", url: url.href, headers: { ...headers }, service: "s3", region },
      ...{ accessKeyId, secretAccessKey, ...(sessionToken !== undefined && { sessionToken }) },
    });
    const signed = await signer.sign();
    return { ...common, url: signed.url, secrets: Object.fromEntries(signed.headers) };
  }

  async #credentials(): Promise<AwsCredentials | undefined> {
    const held = this.#held;
    if (held !== undefined && Date.now() < held.untilMs) return held.credentials;
    const credentials = await awsCredentials(this.#env);
    // An end that is no date is NaN, and nothing is earlier than that.
    const untilMs =
      credentials === undefined ? Date.now() + NONE_HELD_MS : (credentials.expiresMs ?? Infinity) - REFRESH_MS;
    this.#held = { credentials, untilMs };
    return credentials;
  }

  async #endpoint(): Promise<URL | undefined> {
    const { AWS_ENDPOINT_URL_S3: own, AWS_ENDPOINT_URL: all } = this.#env;
    const text = own || all || (await awsProfile(this.#env)).settings["endpoint_url"];
    if (text === undefined || text === "") return undefined;
    if (/^https?:/.test(text) && URL.canParse(text)) return new URL(text);
    throw usageError(`AWS_ENDPOINT_URL=${text}: the address of a server, such as https://minio.example:9000`);
  }

  #refusalOf({ bucket, label }: S3Url, { secrets }: Pick<HttpGet, "secrets">): FileAsked["refusal"] {
    return (status, { headers, text }) => {
      const code = fieldOf(text, "Code");
      const region = headers.get("x-amz-bucket-region") ?? fieldOf(text, "Region");
      if (code === "NoSuchBucket")
        return new CommandError(
          `${label}: there is no bucket "${bucket}": check its name, AWS_REGION and AWS_ENDPOINT_URL`,
        );
      if (status === 404) return new CommandError(`${label}: the bucket has no such object`);
      if (region !== "" && [301, 307, 400].includes(status))
        return new CommandError(`${label}: the bucket is in another region: set AWS_REGION=${region}`);
      const isDenied = status === 401 || status === 403 || /^(ExpiredToken|InvalidToken)$/.test(code);
      // They may have been replaced where they come from.
      if (isDenied) this.#held = undefined;
      if (!isDenied) return new CommandError(`${label}: S3 answered HTTP ${status} ${code}`.trimEnd());
      if (secrets === undefined)
        return new CommandError(
          `${label}: access denied, and no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE`,
        );
      return new CommandError(
        `${label}: access denied (${code === "" ? status : code}): the credentials in force need s3:GetObject and s3:ListBucket there`,
      );
    };
  }
}

/** By the bucket's own host at AWS; by path where that isn't known to have one, or its certificate doesn't fit it. */
function addressOf(place: { bucket: string; key: string; region: string; endpoint: URL | undefined }): URL {
  const { bucket, key, region, endpoint } = place;
  const path = key.split("/").map(encoded).join("/");
  const domain = region.startsWith("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
  if (endpoint !== undefined) return new URL(`${endpoint.href.replace(/\/$/, "")}/${bucket}/${path}`);
  if (/[._]/.test(bucket)) return new URL(`https://s3.${region}.${domain}/${bucket}/${path}`);
  return new URL(`https://${bucket}.s3.${region}.${domain}/${path}`);
}

const encoded = (text: string): string =>
  encodeURIComponent(text).replaceAll(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);

/** As S3 encodes keys: a space may be "+". */
const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return text;
  }
};

const fieldOf = (xml: string, name: string): string =>
  (new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml)?.[1] ?? "").replaceAll("&quot;", '"').replaceAll("&amp;", "&");

/** The digest of the whole object. An upload in parts has a digest of digests, which is no 32 bytes in base 64. */
function declared(headers: Headers): string | undefined {
  const isWhole = headers.get("x-amz-checksum-type") !== "COMPOSITE";
  const own = headers.get("x-amz-meta-sha256") ?? "";
  const whole = isWhole ? hexDigest(headers.get("x-amz-checksum-sha256")) : undefined;
  return whole ?? (/^[0-9a-f]{64}$/i.test(own) ? own.toLowerCase() : undefined);
}
