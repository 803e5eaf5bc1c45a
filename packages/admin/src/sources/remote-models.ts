/** Models that are kept elsewhere, read as files of this machine are. */
import { CommandError, usageError } from "../failure.ts";
import { isName } from "@tutti/protocol";
import { type BlobCache, sharedCache } from "./blob-cache.ts";
import type { Asking } from "./http-get.ts";
import { fetchHttps, fetchHttpsText } from "./https-source.ts";
import { type S3Url, parseModelUrl } from "./model-url.ts";
import { fetchOci } from "./oci-source.ts";
import { S3Source } from "./s3-source.ts";

export interface RemoteFile {
  readonly bytes: Uint8Array;
  readonly sha256: string;
  /** A configuration that belongs to the file, with its place. */
  readonly config: { readonly text: string; readonly origin: string } | undefined;
}

/** A model of a repository, in its newest version. */
export interface RepositoryModel {
  readonly name: string;
  readonly version: string;
  /** A path or a URL. */
  readonly path: string;
  /** The same of its configuration; null: it has none. */
  readonly config: string | null;
  /** Changes whenever its file, its version or its configuration does. */
  readonly tag: string;
}

export interface RepositoryListing {
  /** By name. */
  readonly models: readonly RepositoryModel[];
  /** Entries that are no models, with why. */
  readonly faulty: readonly { readonly name: string; readonly fault: Error }[];
}

/** @throws the faults of all entries that are no models */
export function modelsOf({ models, faulty }: RepositoryListing): readonly RepositoryModel[] {
  const [first, ...more] = faulty;
  if (first !== undefined && more.length === 0) throw first.fault;
  if (first !== undefined) throw new CommandError(faulty.map(({ fault }) => fault.message).join("\n"));
  return models;
}

export class RemoteModels {
  readonly #cache: BlobCache;
  readonly #s3: S3Source;
  readonly #env: NodeJS.ProcessEnv;
  readonly #signal: AbortSignal | undefined;

  /** @param signal - breaks off what is under way, which rejects with its reason */
  constructor(env: NodeJS.ProcessEnv = process.env, signal?: AbortSignal) {
    this.#env = env;
    this.#signal = signal;
    this.#cache = sharedCache(env);
    this.#s3 = new S3Source(this.#cache, env, signal);
  }

  /** @throws {CommandError} in one line that says why there is no such file, and what to do */
  async file(text: string): Promise<RemoteFile> {
    const url = parseModelUrl(text);
    switch (url.scheme) {
      case "https":
        return { ...(await fetchHttps(url, this.#cache, this.#asking())), config: undefined };
      case "oci": {
        const { config, ...file } = await fetchOci(url, this.#cache, this.#asking());
        return { ...file, config: config === undefined ? undefined : { text: config, origin: url.label } };
      }
      case "s3": {
        if (url.key === "" || url.key.endsWith("/")) throw usageError(`${url.label}: that is no object but a prefix`);
        return { ...(await this.#s3.file(url)), config: await this.#configBeside(url) };
      }
    }
  }

  /** A text, such as a configuration. @throws {CommandError} there is none */
  async text(place: string): Promise<string> {
    const url = parseModelUrl(place);
    if (url.scheme === "oci") throw usageError(`${url.label}: a configuration is a file, or one of s3:// or https://`);
    const text = url.scheme === "s3" ? await this.#s3.text(url) : await fetchHttpsText(url, this.#asking());
    if (text === undefined) throw new CommandError(`${url.label}: there is no such file`);
    return text;
  }

  /**
   * The models below a prefix, in Triton's layout: `name/1/model.onnx`, optional `name/config.yaml` or
   * `name/config.pbtxt`.
   */
  async list(place: string): Promise<readonly RepositoryModel[]> {
    return modelsOf(await this.survey(place));
  }

  /** The same with the entries that are no models beside those that are. */
  async survey(place: string): Promise<RepositoryListing> {
    const url = parseModelUrl(place);
    if (url.scheme !== "s3")
      throw usageError(
        `${url.label}: only s3://bucket/prefix can be listed; \`tutti load\` takes single models from there`,
      );
    const prefix = url.key === "" || url.key.endsWith("/") ? url.key : `${url.key}/`;
    const objects = await this.#s3.list({ ...url, key: prefix });
    return newestVersions(
      `s3://${url.bucket}/${prefix}`,
      new Map(objects.map(({ key, etag }) => [key.slice(prefix.length), etag])),
    );
  }

  #asking(): Asking {
    return { env: this.#env, signal: this.#signal };
  }

  /** Nobody has listed what lies beside the object. S3 says 403 of absent ones to those who may not list the bucket. */
  async #configBeside(url: S3Url): Promise<RemoteFile["config"]> {
    for (const key of configKeys(url.key)) {
      const origin = `s3://${url.bucket}/${key}`;
      const text = await this.#s3.text({ ...url, key, label: origin }, [403, 404]);
      if (text !== undefined) return { text, origin };
    }
    return undefined;
  }
}

/** A model's configuration: Tutti's, or else Triton's. */
export const CONFIG_FILES = ["config.yaml", "config.pbtxt"] as const;

/** Beside the model, and above its version. */
function configKeys(key: string): string[] {
  const folder = key.split("/").slice(0, -1);
  const folders = [folder, ...(/^\d+$/.test(folder.at(-1) ?? "") ? [folder.slice(0, -1)] : [])];
  return CONFIG_FILES.flatMap((file) => folders.map((place) => [...place, file].join("/")));
}

function newestVersions(origin: string, etags: ReadonlyMap<string, string>): RepositoryListing {
  const newest = new Map<string, string>();
  const misnamed = new Set<string>();
  for (const key of etags.keys()) {
    const [, name = "", version = ""] = /^([^/]+)\/(\d+)\/model\.onnx$/.exec(key) ?? [];
    if (version === "" || Number(version) < Number(newest.get(name) ?? 0)) continue;
    if (isName(name)) newest.set(name, version);
    else misnamed.add(name);
  }
  const models = [...newest].map(([name, version]): RepositoryModel => {
    const file = `${name}/${version}/model.onnx`;
    const config = configKeys(file).find((key) => etags.has(key));
    const tag = [version, etags.get(file), config, config === undefined ? "" : etags.get(config)].join(" ");
    return { name, version, path: `${origin}${file}`, config: config === undefined ? null : `${origin}${config}`, tag };
  });
  const fault = (name: string): Error =>
    new CommandError(`${origin}${name}: names have letters, digits, "-" and "_" only`);
  return {
    models: models.sort((a, b) => (a.name < b.name ? -1 : 1)),
    faulty: [...misnamed].map((name) => ({ name, fault: fault(name) })),
  };
}
