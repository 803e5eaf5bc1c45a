/**
 * Models in registries of containers, as `oras push` writes them: an artefact with one layer for the model's file and
 * perhaps one for its config.yaml. Layers are files that are named by their digest, so nothing is unpacked and no name
 * in a manifest becomes a path.
 */
import { createHash } from "node:crypto";
import { CommandError } from "../failure.ts";
import type { BlobCache } from "./blob-cache.ts";
import { type FetchedFile, fetchFile } from "./fetch-file.ts";
import { type Asking, TEXT_BYTES_MAX, httpGet, textOf } from "./http-get.ts";
import type { OciUrl } from "./model-url.ts";
import { basic } from "./netrc.ts";
import { type RegistryLogin, registryLogin } from "./oci-credentials.ts";

interface Layer {
  readonly digest?: string;
  readonly mediaType?: string;
  readonly annotations?: Readonly<Record<string, string>>;
}

const MANIFESTS = [
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.distribution.manifest.v2+json",
];
/** How oras, and the model format of the CNCF, name a layer's file. */
const NAMES = ["org.opencontainers.image.title", "org.cncf.model.filepath"];

export interface OciModel extends FetchedFile {
  /** The artefact's config.yaml. */
  readonly config: string | undefined;
}

export async function fetchOci(url: OciUrl, cache: BlobCache, asking: Asking): Promise<OciModel> {
  const repository = new Repository(url, asking);
  const { model, config } = layersIn(await repository.manifest(), url.label);
  if (url.sha256 !== undefined && url.sha256 !== model)
    throw new CommandError(`${url.label} is another file: its sha256 is ${model}, and ${url.sha256} is demanded`);
  // The small one first: where it is refused, no gigabytes have come for nothing.
  const text = config === undefined ? undefined : await repository.blob(config, cache, TEXT_BYTES_MAX);
  const file = await repository.blob(model, cache);
  return { ...file, config: text && new TextDecoder().decode(text.bytes) };
}

/** The digests of the model's and the configuration's layer. */
function layersIn(text: string, label: string): { model: string; config: string | undefined } {
  let manifest: { readonly layers?: readonly Layer[]; readonly manifests?: unknown } = {};
  try {
    manifest = JSON.parse(text) as typeof manifest;
  } catch {
    // It has no layers, then.
  }
  if (manifest.manifests !== undefined)
    throw new CommandError(`${label} is an index of several artefacts: name one by its digest, as repository@sha256:…`);
  const layers = (Array.isArray(manifest.layers) ? manifest.layers : []).map((layer) => ({
    digest: /^sha256:([0-9a-f]{64})$/.exec(layer.digest ?? "")?.[1],
    file: NAMES.map((name) => layer.annotations?.[name]).find((name) => name !== undefined) ?? "",
    isArchive: /tar|zip/.test(layer.mediaType ?? "tar"),
  }));
  const named = layers.filter(({ file }) => file.endsWith(".onnx"));
  const models = named.length > 0 || layers.length > 1 ? named : layers.filter(({ isArchive }) => !isArchive);
  const [model] = models;
  if (models.length !== 1 || model?.digest === undefined || model.isArchive)
    throw new CommandError(
      `${label}: ${models.length > 1 ? "several models" : "no model"} in the artefact: \`oras push registry/repository:tag model.onnx config.yaml\` makes one with a model`,
    );
  return { model: model.digest, config: layers.find(({ file }) => /(^|\/)config\.yaml$/.test(file))?.digest };
}

class Repository {
  readonly #url: OciUrl;
  readonly #asking: Asking;
  readonly #base: URL;
  #authorization: string | undefined;
  /** The registry's own: one of a host that it redirects to could ask for its password. */
  #challenge: string | undefined;

  constructor(url: OciUrl, asking: Asking) {
    this.#url = url;
    this.#asking = asking;
    const hub = url.registry === "docker.io" ? "registry-1.docker.io" : url.registry;
    const name =
      url.registry === "docker.io" && !url.repository.includes("/") ? `library/${url.repository}` : url.repository;
    // As docker has it: a registry on this machine needs no certificate.
    this.#base = new URL(`${isHere(hub) ? "http" : "https"}://${hub}/v2/${name}/`);
  }

  async manifest(): Promise<string> {
    const { label, reference } = this.#url;
    const get = {
      url: new URL(`manifests/${reference}`, this.#base),
      label,
      bytesMax: TEXT_BYTES_MAX,
      ...this.#signal(),
    };
    const headers = { accept: MANIFESTS.join(", ") };
    for (;;) {
      const isAuthorized = this.#authorization !== undefined;
      const reply = await httpGet({ ...get, headers, secrets: this.#secrets() }, async (got) => ({
        ...{ status: got.status, challenge: got.headers.get("www-authenticate") ?? "", text: await textOf(got) },
      }));
      if (reply.status === 200) return this.#checked(reply.text);
      if (reply.status !== 401 || isAuthorized) throw this.#refusal(reply.status);
      this.#challenge = reply.challenge;
      this.#authorization = await this.#authorize(reply.challenge);
    }
  }

  /** A token may end while a large file comes, so another one is asked for once. */
  async blob(sha256: string, cache: BlobCache, bytesMax?: number): Promise<FetchedFile> {
    let isRefused = false;
    const refusal = (status: number): CommandError => {
      isRefused = status === 401;
      return this.#refusal(status);
    };
    const attempt = (): Promise<FetchedFile> => {
      const url = new URL(`blobs/sha256:${sha256}`, this.#base);
      const get = { url, label: this.#url.label, secrets: this.#secrets(), ...this.#signal() };
      return fetchFile({ get, sha256, declared: () => undefined, refusal, cache, bytesMax });
    };
    try {
      return await attempt();
    } catch (error) {
      if (!isRefused || this.#challenge === undefined) throw error;
    }
    this.#authorization = await this.#authorize(this.#challenge);
    return attempt();
  }

  #signal(): Pick<Asking, "signal"> {
    return { signal: this.#asking.signal };
  }

  #secrets(): Readonly<Record<string, string>> {
    return this.#authorization === undefined ? {} : { authorization: this.#authorization };
  }

  #checked(manifest: string): string {
    const { reference, label } = this.#url;
    const found = `sha256:${createHash("sha256").update(manifest).digest("hex")}`;
    if (!reference.startsWith("sha256:") || reference === found) return manifest;
    throw new CommandError(`${label}: the registry gives another manifest, ${found}`);
  }

  /** Answers the registry's challenge as the distribution specification has it. @throws {CommandError} it can't be */
  async #authorize(challenge: string): Promise<string> {
    const login = await registryLogin(this.#url.registry, this.#asking.env);
    if (/^basic\b/i.test(challenge) && login?.kind === "password") return basic(login.userAndPassword);
    const field = (name: string): string => new RegExp(`\\b${name}="([^"]*)"`).exec(challenge)?.[1] ?? "";
    const realm = URL.canParse(field("realm")) ? new URL(field("realm")) : undefined;
    // The realm gets the password, so nobody on the way may read it.
    const isSafe = realm?.protocol === "https:" || (this.#base.protocol === "http:" && isHere(realm?.host ?? ""));
    if (!/^bearer\b/i.test(challenge) || realm === undefined || !isSafe) throw this.#refusal(401);
    const scope = field("scope") || `repository:${this.#base.pathname.slice(4, -1)}:pull`;
    const text = await fetchToken(realm, {
      ...{ service: field("service"), scope, login, label: this.#url.label },
      ...this.#signal(),
    });
    if (text === undefined) throw this.#refusal(401);
    return `Bearer ${text}`;
  }

  #refusal(status: number): CommandError {
    const { label, registry } = this.#url;
    if (status === 401 || status === 403)
      return new CommandError(
        `${label}: access denied (HTTP ${status}): \`docker login ${registry}\`, or DOCKER_AUTH_CONFIG`,
      );
    if (status === 404) return new CommandError(`${label}: the registry has no such artefact`);
    return new CommandError(`${label}: the registry answered HTTP ${status}`);
  }
}

const isHere = (host: string): boolean => /^(localhost|127(\.\d+){3}|\[::1\])(:\d+)?$/.test(host);

async function fetchToken(
  realm: URL,
  asked: Pick<Asking, "signal"> & {
    readonly service: string;
    readonly scope: string;
    readonly login: RegistryLogin | undefined;
    readonly label: string;
  },
): Promise<string | undefined> {
  const { service, scope, login, label, signal } = asked;
  const terms = { service, scope };
  const url = new URL(realm);
  const exchange = { client_id: "tutti", grant_type: "refresh_token" };
  if (login?.kind !== "identity") for (const [name, value] of Object.entries(terms)) url.searchParams.set(name, value);
  const get = {
    ...{ url, label: `${label}: token`, bytesMax: TEXT_BYTES_MAX, redirectsMax: 0, signal },
    ...(login?.kind === "password" && { secrets: { authorization: basic(login.userAndPassword) } }),
    ...(login?.kind === "identity" && {
      method: "POST" as const,
      headers: { "content-type": "application/x-www-form-urlencoded" },
      body: new URLSearchParams({ ...terms, ...exchange, refresh_token: login.token }).toString(),
    }),
  };
  const reply = await httpGet(get, async (got) => ({ status: got.status, text: await textOf(got) }));
  if (reply.status !== 200) return undefined;
  try {
    const { token, access_token: other } = JSON.parse(reply.text) as { token?: string; access_token?: string };
    return token ?? other;
  } catch {
    return undefined;
  }
}
