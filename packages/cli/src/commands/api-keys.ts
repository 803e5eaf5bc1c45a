/** `tutti auth key …` and `tutti auth quota`: API keys for gateways over HTTP or gRPC, and applications' quotas. */
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { appNameProblem } from "@tutti/protocol";
import { parseBytes } from "@tutti/units";
import {
  API_KEYS_FILE,
  type ApiKeys,
  NO_API_KEYS,
  type Quota,
  createApiKey,
  parseApiKeys,
} from "@tutti/admin/api-keys";
import { writePrivately } from "@tutti/admin/auth";
import { CommandError, makeFolder, usageError, renderTable } from "@tutti/admin";
import { type AuthOptions, say, secondsOf } from "./auth.ts";

export interface KeyOptions extends AuthOptions {
  readonly admin?: boolean;
  readonly expires?: string;
}

export interface QuotaOptions extends AuthOptions {
  readonly rate?: string;
  readonly bytes?: string;
}

export function addKey(app: string, options: KeyOptions): void {
  checkApp(app);
  const expiresInS = secondsOf(options.expires);
  const expiresAt = expiresInS === undefined ? undefined : Math.floor(Date.now() / 1_000) + expiresInS;
  const { text, key } = createApiKey(app, { isAdmin: options.admin === true, expiresAt });
  const known = readKeys(options.dir);
  writeKeys(options.dir, { ...known, keys: [...known.keys, key] });
  const shown = `${text}\nKey ${key.id} of ${app}. It is shown this once: Authorization: Bearer <key>`;
  say(options, { id: key.id, app, isAdmin: key.isAdmin, key: text, file: pathOf(options.dir) }, shown);
}

export function listKeys(options: AuthOptions): void {
  const { keys, quotas } = readKeys(options.dir);
  const listed = keys.map(({ sha256: _, ...key }) => key);
  const day = (at: number | undefined): string =>
    at === undefined ? "" : new Date(at * 1_000).toISOString().slice(0, 16);
  const rows = keys.map(({ id, app, isAdmin, createdAt, expiresAt }) => [
    ...[id, app, isAdmin ? "admin" : "", day(createdAt), day(expiresAt)],
  ]);
  const table = rows.length === 0 ? "no keys" : renderTable(["key", "application", "", "made", "ends"], rows);
  const limits = Object.entries(quotas).map(([app, quota]) => `quota of ${app}: ${quotaText(quota)}`);
  say(options, { keys: listed, quotas }, [table, ...limits].join("\n"));
}

export function revokeKey(id: string, options: AuthOptions): void {
  const known = readKeys(options.dir);
  const keys = known.keys.filter((key) => key.id !== id);
  if (keys.length === known.keys.length)
    throw new CommandError(`there is no key ${id}: \`tutti auth key list\` shows those that there are`);
  writeKeys(options.dir, { ...known, keys });
  say(options, { id }, `${id} is revoked: gateways refuse it within seconds`);
}

/** Sets a quota; without a rate and bytes it removes the application's quota. */
export function setQuota(app: string, options: QuotaOptions): void {
  if (app !== "*") checkApp(app);
  const quota: Quota = {
    ...(options.rate !== undefined && { requestsPerSecond: positive("rate", Number(options.rate), options.rate) }),
    ...(options.bytes !== undefined && {
      bytesInFlight: positive("bytes", parseBytes(options.bytes) ?? NaN, options.bytes),
    }),
  };
  const { [app]: _, ...others } = readKeys(options.dir).quotas;
  const quotas = Object.keys(quota).length === 0 ? others : { ...others, [app]: quota };
  writeKeys(options.dir, { ...readKeys(options.dir), quotas });
  say(options, { app, quota }, `${app}: ${quotaText(quota)}`);
}

const pathOf = (dir: string): string => join(resolve(dir), API_KEYS_FILE);

function readKeys(dir: string): ApiKeys {
  const path = pathOf(dir);
  try {
    return parseApiKeys(readFileSync(path, "utf8"));
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") return NO_API_KEYS;
    throw new CommandError(`${path} can't be read: ${(cause as Error).message}`, undefined, cause);
  }
}

function writeKeys(dir: string, keys: ApiKeys): void {
  makeFolder(resolve(dir));
  writePrivately(pathOf(dir), `${JSON.stringify(keys, undefined, 2)}\n`);
}

function checkApp(app: string): void {
  const problem = appNameProblem(app);
  if (problem !== undefined) throw usageError(problem);
}

function positive(flag: string, value: number, text: string): number {
  if (Number.isFinite(value) && value > 0) return value;
  throw usageError(`--${flag} ${text}: a number above zero, such as ${flag === "rate" ? "200" : "64MB"}`);
}

const quotaText = ({ requestsPerSecond, bytesInFlight }: Quota): string =>
  [
    ...(requestsPerSecond === undefined ? [] : [`${requestsPerSecond} requests a second`]),
    ...(bytesInFlight === undefined ? [] : [`${bytesInFlight} bytes in flight`]),
  ].join(", ") || "none of its own";
