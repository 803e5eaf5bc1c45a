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

/** Buckets as one process reads them: its credentials are kept until they end. */
export class S3Source {
  readonly #env: NodeJS.ProcessEnv;
  readonly #cache: BlobCache;
  #held: { readonly credentials: AwsCredentials | undefined } | undefined;

  constructor(cache: BlobCache, env: NodeJS.ProcessEnv = process.env) {
    this.#cache = cache;
    this.#env = env;
  }

  async file(url: S3Url): Promise<FetchedFile> {
    const headers = { "x-amz-checksum-mode": "ENABLED" };
    const get = await this.#get(url, { key: url.key, headers });
    return fetchFile({ get, sha256: url.sha256, declared, refusal: this.#refusalOf(url), cache: this.#cache });
  }

  /** @param absent - the statuses for which it returns undefined; otherwise a missing object is an error */
  async text(url: S3Url, absent: readonly number[] = []): Promise<string | undefined> {
    return fetchText(await this.#get(url, { key: url.key }), this.#refusalOf(url), absent);
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
      const text = (await fetchText(get, this.#refusalOf(url))) ?? "";
      if (!text.includes("<ListBucketResult")) throw new CommandError(`${url.label}: ${get.url.host} speaks no S3`);
      for (const [, entry = ""] of text.matchAll(/<Contents>(.*?)<\/Contents>/gs))
        found.push({ key: decoded(fieldOf(entry, "Key")), etag: fieldOf(entry, "ETag") });
      after = fieldOf(text, "NextContinuationToken");
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
    if (credentials === undefined) return { url, label, headers, redirectsMax: 0 };
    const { accessKeyId, secretAccessKey, sessionToken } = credentials;
    const signer = new AwsV4Signer({
      ...{ method: "GET", url: url.href, headers: { ...headers }, service: "s3", region },
      ...{ accessKeyId, secretAccessKey, ...(sessionToken !== undefined && { sessionToken }) },
    });
    const signed = await signer.sign();
    return { url: signed.url, label, secrets: Object.fromEntries(signed.headers), redirectsMax: 0 };
  }

  async #credentials(): Promise<AwsCredentials | undefined> {
    const isOver = (this.#held?.credentials?.expiresMs ?? Infinity) - Date.now() < REFRESH_MS;
    if (this.#held === undefined || isOver) this.#held = { credentials: await awsCredentials(this.#env) };
    return this.#held.credentials;
  }

  async #endpoint(): Promise<URL | undefined> {
    const { AWS_ENDPOINT_URL_S3: own, AWS_ENDPOINT_URL: all } = this.#env;
    const text = own || all || (await awsProfile(this.#env)).settings["endpoint_url"];
    if (text === undefined || text === "") return undefined;
    if (/^https?:/.test(text) && URL.canParse(text)) return new URL(text);
    throw usageError(`AWS_ENDPOINT_URL=${text}: the address of a server, such as https://minio.example:9000`);
  }

  #refusalOf({ bucket, label }: S3Url): FileAsked["refusal"] {
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
      if (status !== 401 && status !== 403)
        return new CommandError(`${label}: S3 answered HTTP ${status} ${code}`.trimEnd());
      if (this.#held?.credentials === undefined)
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
