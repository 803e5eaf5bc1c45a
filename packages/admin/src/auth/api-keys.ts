/**
 * API keys of applications that ask over HTTP or gRPC, and each application's quota. They are one file of the auth
 * folder, which `tutti auth` writes and gateways read. A key is 256 random bits, so it can't be guessed, its SHA-256
 * reveals nothing about it, and no slow hash is needed.
 */
import { hash, randomBytes } from "node:crypto";
import { isName } from "@tutti/protocol";

export const API_KEYS_FILE = "api-keys.json";
/** Limit on the file's keys: far more than any deployment hands out, and read in a few ms. */
const KEYS_MAX = 100_000;

export interface ApiKey {
  /** Public identifier of the key. */
  readonly id: string;
  readonly app: string;
  /** The key may change models, restart actors and read the console. */
  readonly isAdmin: boolean;
  /** SHA-256 of the whole key, in hexadecimal. */
  readonly sha256: string;
  /** Seconds since 1970. */
  readonly createdAt: number;
  /** Seconds since 1970; absent: never. */
  readonly expiresAt?: number;
}

/** The limits of one application at one gateway. */
export interface Quota {
  /** Inference requests per second; a burst of as many may come after an idle second. */
  readonly requestsPerSecond?: number;
  /** Total size of the bodies that are being read or answered. */
  readonly bytesInFlight?: number;
}

export interface ApiKeys {
  readonly version: 1;
  readonly keys: readonly ApiKey[];
  /** By application; `*`: every application without a quota of its own. */
  readonly quotas: Readonly<Record<string, Quota>>;
}

export const NO_API_KEYS: ApiKeys = { version: 1, keys: [], quotas: {} };

/** Creates a key. Its text is shown once and stored nowhere. */
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

/** @returns undefined: the text is not a key */
export const apiKeyId = (text: string): string | undefined => /^tutti_([0-9a-f]{12})_[\w-]{43}$/.exec(text)?.[1];

export const sha256Of = (text: string): Buffer => hash("sha256", text, "buffer");

/** @throws {Error} saying what is wrong in the text */
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
