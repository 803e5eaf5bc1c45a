/** The valid API keys, from the file of `tutti auth key`. */
import { timingSafeEqual } from "node:crypto";
import { type ApiKey, type Quota, apiKeyId, parseApiKeys, sha256Of } from "@tutti/admin/api-keys";
import type { Logger } from "@tutti/ports/telemetry";
import { WatchedFiles } from "./watched-files.ts";

interface Keys {
  readonly byId: ReadonlyMap<string, { readonly key: ApiKey; readonly digest: Buffer }>;
  readonly quotas: ReadonlyMap<string, Quota>;
}

export interface KeyStoreOptions {
  readonly path: string;
  readonly log: Logger;
  /** Called when keys were made or revoked. */
  readonly onChange: () => void;
  readonly lookEveryMs?: number | undefined;
}

const NOBODY = Buffer.alloc(32);

export class KeyStore {
  readonly #file: WatchedFiles<Keys>;

  /** @throws {Error} the file is missing, or not in the format of `tutti auth key` */
  constructor({ path, log, onChange, lookEveryMs }: KeyStoreOptions) {
    this.#file = new WatchedFiles({
      paths: [path],
      read: ([text = ""]) => keysOf(text),
      onChange: ({ byId }) => {
        log.info({ keys: byId.size }, "API keys were read again");
        onChange();
      },
      onTrouble: (text) => log.error({ trouble: text }, "API keys stay as they were"),
      lookEveryMs,
    });
  }

  /** Looks a key up, for the cost of one hash. @returns undefined: there is no such key, or it has expired */
  find(text: string, nowMs: number): ApiKey | undefined {
    const found = this.#file.current.byId.get(apiKeyId(text) ?? "");
    const isKey = timingSafeEqual(sha256Of(text), found?.digest ?? NOBODY);
    if (found === undefined || !isKey) return undefined;
    return (found.key.expiresAt ?? Infinity) * 1_000 > nowMs ? found.key : undefined;
  }

  quotaOf(app: string): Quota | undefined {
    const { quotas } = this.#file.current;
    return quotas.get(app) ?? quotas.get("*");
  }

  stop(): void {
    this.#file.stop();
  }
}

function keysOf(text: string): Keys {
  const { keys, quotas } = parseApiKeys(text);
  return {
    byId: new Map(keys.map((key) => [key.id, { key, digest: Buffer.from(key.sha256, "hex") }])),
    quotas: new Map(Object.entries(quotas)),
  };
}
