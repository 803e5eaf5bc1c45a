/**
 * API keys of applications that ask over HTTP or gRPC, and what each of them may take: one file of the auth folder,
 * which `tutti auth` writes and gateways read. A key is 256 random bits, so nobody guesses one, its SHA-256 tells
 * nothing of it, and no slow hash is needed.
 */
import { hash, randomBytes } from "node:crypto";
import { isName } from "@tutti/protocol";

export const API_KEYS_FILE = "api-keys.json";
/** Of the file; far more than anybody hands out, and read in a few ms. */
const KEYS_MAX = 100_000;

export interface ApiKey {
  /** Not secret: what it is called by. */
  readonly id: string;
  readonly app: string;
  /** It may change models, restart actors and read the console. */
  readonly isAdmin: boolean;
  /** Of the whole key, in hexadecimal. */
  readonly sha256: string;
  /** Seconds since 1970. */
  readonly createdAt: number;
  /** Seconds since 1970; absent: never. */
  readonly expiresAt?: number;
}

/** What one application may take of one gateway. */
export interface Quota {
  /** Requests for inference; as many may come at once after a second of none. */
  readonly requestsPerSecond?: number;
  /** Of bodies that are being read or answered. */
  readonly bytesInFlight?: number;
}

export interface ApiKeys {
  readonly version: 1;
  readonly keys: readonly ApiKey[];
  /** By application; `*`: each that has none of its own. */
  readonly quotas: Readonly<Record<string, Quota>>;
}

export const NO_API_KEYS: ApiKeys = { version: 1, keys: [], quotas: {} };

/** A new key. Its text is shown once and stored nowhere. */
export function createApiKey(
  app: string,
  { isAdmin, expiresAt }: { readonly isAdmin: boolean; readonly expiresAt: number | undefined },
): { readonly text: string; readonly key: ApiKey } {
  const id = randomBytes(6).toString("hex");
  const text = `tutti_${id}_${randomBytes(32).toString("base64url")}`;
  const createdAt = Math.floor(Date.now() / 1_000);
  const sha256 = sha256Of(text).toString("hex");
  return { text, key: { id, app, isAdmin, sha256, createdAt, ...(expiresAt !== undefined && { expiresAt }) } };
}

/** @returns undefined: this is no key's text */
export const apiKeyId = (text: string): string | undefined => /^tutti_([0-9a-f]{12})_[\w-]{43}$/.exec(text)?.[1];

export const sha256Of = (text: string): Buffer => hash("sha256", text, "buffer");

/** @throws {Error} saying what is wrong in it */
export function parseApiKeys(text: string): ApiKeys {
  const { version, keys, quotas } = JSON.parse(text) as Partial<ApiKeys>;
  if (version !== 1 || !Array.isArray(keys) || typeof quotas !== "object" || quotas === null)
    throw new Error("it is not what `tutti auth key` writes");
  if (keys.length > KEYS_MAX) throw new Error(`it has more than ${KEYS_MAX} keys`);
  const wrong = keys.findIndex((key: unknown) => !isApiKey(key as Partial<ApiKey> | null));
  if (wrong >= 0) throw new Error(`its key ${wrong} is none`);
  for (const [app, quota] of Object.entries(quotas))
    if ((app !== "*" && !isName(app)) || !isQuota(quota)) throw new Error(`its quota of "${app}" is none`);
  return { version, keys, quotas };
}

const isApiKey = (key: Partial<ApiKey> | null): boolean =>
  /^[0-9a-f]{12}$/.test(key?.id ?? "") &&
  isName(key?.app ?? "") &&
  typeof key?.isAdmin === "boolean" &&
  /^[0-9a-f]{64}$/.test(key.sha256 ?? "") &&
  Number.isSafeInteger(key.createdAt) &&
  (key.expiresAt === undefined || Number.isSafeInteger(key.expiresAt));

const isQuota = (quota: unknown): boolean =>
  typeof quota === "object" &&
  quota !== null &&
  Object.entries(quota).every(
    ([name, value]) =>
      ["requestsPerSecond", "bytesInFlight"].includes(name) &&
      typeof value === "number" &&
      Number.isFinite(value) &&
      value > 0,
  );
