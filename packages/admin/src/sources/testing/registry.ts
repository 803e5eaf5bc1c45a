/** A registry by the distribution specification (pull), with or without tokens; its blobs lie on another host. */
import { createHash } from "node:crypto";
import type { RequestListener } from "node:http";
import { Listener } from "./listener.ts";

export const USER = "puller:s3cret";

export interface PushedLayer {
  readonly bytes: Uint8Array;
  readonly title?: string;
  readonly mediaType?: string;
}

interface Tokens {
  number: number;
  /** Requests that the present one is taken for. */
  left: number;
}

export class TestRegistry {
  readonly front: Listener;
  readonly blobs: Listener;
  readonly #tokens: Tokens;
  readonly #manifests: Map<string, string>;
  readonly #contents: Map<string, Uint8Array>;

  private constructor(
    parts: Pick<TestRegistry, "front" | "blobs"> & {
      manifests: Map<string, string>;
      contents: Map<string, Uint8Array>;
      tokens: Tokens;
    },
  ) {
    this.#tokens = parts.tokens;
    this.front = parts.front;
    this.blobs = parts.blobs;
    this.#manifests = parts.manifests;
    this.#contents = parts.contents;
  }

  static async start({ isClosed = false }: { readonly isClosed?: boolean } = {}): Promise<TestRegistry> {
    const manifests = new Map<string, string>();
    const contents = new Map<string, Uint8Array>();
    const blobs = await Listener.start(({ url = "" }, response) => {
      const content = contents.get(url.slice(1));
      response.writeHead(content === undefined ? 404 : 200).end(content);
    });
    const tokens: Tokens = { number: 1, left: Infinity };
    const front = await Listener.start(
      answerOf({ isClosed, tokens, manifests, blobs: () => blobs.url, own: () => front.url }),
    );
    return new TestRegistry({ front, blobs, manifests, contents, tokens });
  }

  /** `localhost:port` */
  get host(): string {
    return new URL(this.front.url).host;
  }

  /** @returns the manifest's digest */
  push(repository: string, tag: string, layers: readonly PushedLayer[]): string {
    const described = layers.map(({ bytes, title, mediaType = "application/octet-stream" }) => {
      const digest = digestOf(bytes);
      this.#contents.set(digest, bytes);
      const annotations = title === undefined ? {} : { annotations: { "org.opencontainers.image.title": title } };
      return { mediaType, digest, size: bytes.byteLength, ...annotations };
    });
    const manifest = JSON.stringify({
      schemaVersion: 2,
      mediaType: "application/vnd.oci.image.manifest.v1+json",
      layers: described,
    });
    const digest = digestOf(Buffer.from(manifest));
    for (const reference of [tag, digest]) this.#manifests.set(`${repository}/${reference}`, manifest);
    return digest;
  }

  /** Replaces what a digest stands for, as a broken or hostile registry does. */
  damage(bytes: Uint8Array, other: Uint8Array): void {
    this.#contents.set(digestOf(bytes), other);
  }

  /** Takes the token that is given out for so many requests only, and the next one from then on. */
  endTokenAfter(requests: number): void {
    this.#tokens.left = requests;
  }

  stop(): void {
    this.front.stop();
    this.blobs.stop();
  }
}

const digestOf = (bytes: Uint8Array): string => `sha256:${createHash("sha256").update(bytes).digest("hex")}`;

function answerOf(parts: {
  readonly isClosed: boolean;
  readonly tokens: Tokens;
  readonly manifests: ReadonlyMap<string, string>;
  readonly blobs: () => string;
  readonly own: () => string;
}): RequestListener {
  return ({ url = "", headers }, response) => {
    const { pathname, searchParams } = new URL(url, "http://localhost");
    if (pathname === "/token") {
      const isKnown = headers.authorization === `Basic ${Buffer.from(USER).toString("base64")}`;
      const isFull =
        searchParams.get("service") === "test" && /^repository:.+:pull$/.test(searchParams.get("scope") ?? "");
      response.writeHead(isKnown && isFull ? 200 : 401).end(JSON.stringify({ token: `bearer-${parts.tokens.number}` }));
      return;
    }
    const [, repository = "", kind, reference = ""] = /^\/v2\/(.+)\/(manifests|blobs)\/([^/]+)$/.exec(pathname) ?? [];
    const { tokens } = parts;
    const isIn = headers.authorization === `Bearer bearer-${tokens.number}`;
    if (isIn && --tokens.left === 0) Object.assign(tokens, { number: tokens.number + 1, left: Infinity });
    if (parts.isClosed && !isIn) {
      const challenge = `Bearer realm="${parts.own()}/token",service="test",scope="repository:${repository}:pull"`;
      response.writeHead(401, { "www-authenticate": challenge }).end();
    } else if (kind === "blobs") response.writeHead(307, { location: `${parts.blobs()}/${reference}` }).end();
    else {
      const manifest = parts.manifests.get(`${repository}/${reference}`);
      response.writeHead(manifest === undefined ? 404 : 200).end(manifest);
    }
  };
}
