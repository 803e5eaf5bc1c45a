/** Names of models that are kept elsewhere: `s3://bucket/key`, `https://…` or `oci://registry/repository:tag`. */
import { usageError } from "../failure.ts";

interface Kept {
  /** For messages: without the query and without whatever a URL may hide there, such as a signature. */
  readonly label: string;
  /** The SHA-256 that `#sha256=…` demands, in lower case. */
  readonly sha256: string | undefined;
}
export interface S3Url extends Kept {
  readonly scheme: "s3";
  readonly bucket: string;
  /** Empty, or ending in `/`: a prefix, that is a repository of models. */
  readonly key: string;
}
interface HttpUrl extends Kept {
  readonly scheme: "https";
  readonly url: URL;
}
export interface OciUrl extends Kept {
  readonly scheme: "oci";
  readonly registry: string;
  readonly repository: string;
  /** A tag, or a digest such as `sha256:…`. */
  readonly reference: string;
}
export type ModelUrl = S3Url | HttpUrl | OciUrl;

const HOW = "s3://bucket/key, https://host/path or oci://registry/repository:tag";

/** Whether it names a place other than a path of this machine. */
export const isModelUrl = (text: string): boolean => /^[a-z][a-z0-9+.-]*:\/\//i.test(text);

/** The part that names the model: `mlp/1/model.onnx`. */
export function pathIn(url: ModelUrl): string {
  if (url.scheme === "s3") return url.key;
  return url.scheme === "oci" ? url.repository : url.url.pathname;
}

/** @throws {CommandError} a usage error that says what such a URL looks like */
export function parseModelUrl(text: string): ModelUrl {
  const [, place = "", fragment] = /^([^#]*)(?:#(.*))?$/s.exec(text) ?? [];
  const label = labelOf(text);
  const sha256 = digestIn(fragment, label);
  const scheme = place.slice(0, place.indexOf("://")).toLowerCase();
  if (scheme === "s3") return { scheme, label, sha256, ...bucketAndKey(place, label) };
  if (scheme === "oci") return { scheme, label, sha256, ...repositoryOf(place, label) };
  if (scheme !== "https" && scheme !== "http") throw usageError(`${label}: models are taken from ${HOW}`);
  if (!URL.canParse(place)) throw usageError(`${label} is no URL: give ${HOW}`);
  const url = new URL(place);
  if (url.username !== "" || url.password !== "")
    throw usageError(`${label}: a password in a URL ends up in histories and logs: put it into ~/.netrc`);
  // Anybody on the way of plain HTTP can replace the model, except where its content is fixed.
  if (scheme === "http" && sha256 === undefined)
    throw usageError(`${label}: take https://, or say which file it must be: ${label}#sha256=<64 hexadecimal digits>`);
  return { scheme: "https", label, sha256, url };
}

/** A password in a URL isn't shown, even one with what ends a URL's host: `/`, `?` or `#`. */
function labelOf(text: string): string {
  const [, scheme = "", rest = ""] = /^([^:]*:\/\/)(.*)$/s.exec(text) ?? [];
  const plain = rest.replace(/[?#].*$/s, "");
  const [digest = ""] = /@sha256:[0-9a-f]{64}$/i.exec(plain) ?? [];
  const place = plain.slice(0, plain.length - digest.length);
  const tail = rest.slice(plain.length);
  const mayHaveSecret = /^[^/@]*:/.test(place);
  if (mayHaveSecret && tail.includes("@")) return `${scheme}…`;
  return `${scheme}${place.replace(mayHaveSecret ? /^.*@/s : /^[^/]*@/, "")}${digest}`;
}

function digestIn(fragment: string | undefined, label: string): string | undefined {
  if (fragment === undefined) return undefined;
  const [, digest] = /^sha256=([0-9a-f]{64})$/i.exec(fragment) ?? [];
  if (digest !== undefined) return digest.toLowerCase();
  throw usageError(`${label}: behind # stands sha256=<64 hexadecimal digits>, or nothing`);
}

function bucketAndKey(place: string, label: string): Pick<S3Url, "bucket" | "key"> {
  const [, bucket = "", key = ""] = /^[^:]+:\/\/([a-z0-9][a-z0-9._-]{1,61}[a-z0-9])(?:\/(.*))?$/s.exec(place) ?? [];
  if (bucket === "")
    throw usageError(`${label}: s3://bucket/key, with a bucket of 3 to 63 lower-case letters and digits`);
  if (!isPlainKey(key)) throw usageError(`${label}: a key with "." or ".." as a segment is taken for another one`);
  return { bucket, key };
}

/** URLs resolve `.` and `..`: such a key would be another one, perhaps in another bucket. */
export const isPlainKey = (key: string): boolean => !key.split("/").some((segment) => /^\.{1,2}$/.test(segment));

const REPOSITORY = /^[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:\/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*$/;

function repositoryOf(place: string, label: string): Pick<OciUrl, "registry" | "repository" | "reference"> {
  const parts = /^[^:]+:\/\/([^/@?]+)\/([^:@?]+)(?::([\w][\w.-]{0,127}))?(?:@(sha256:[0-9a-f]{64}))?$/i.exec(place);
  const [, registry = "", repository = "", tag, digest] = parts ?? [];
  if (!REPOSITORY.test(repository) || !URL.canParse(`https://${registry}/`))
    throw usageError(`${label}: oci://registry/repository:tag or oci://registry/repository@sha256:<64 digits>`);
  return { registry, repository, reference: digest ?? tag ?? "latest" };
}
