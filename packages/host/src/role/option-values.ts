/** Parsers of single option values. Each throws a CommandError that names the flag and its valid values. */
import { isIPv4 } from "node:net";
import type { BatcherConfig } from "@tutti/actors";
import { NAME_RULE, isAcceleratorName, isName } from "@tutti/protocol";
import { GPUS_MAX, type GpuId, type Micros, formatDuration, gpuId, parseBytes, parseDuration } from "@tutti/units";
import { usageError } from "@tutti/admin";
import { LOOPBACK } from "./role-flags.ts";
import { BUDGET_SHARE, EPOCH, EPOCH_LEAST, WARMUP_TIME, WARMUP_TIME_MAX } from "./role-defaults.ts";

export type PolicyChoice = BatcherConfig["policy"];

export function parsePolicy(text: string): PolicyChoice {
  if (isPlainPolicy(text)) return { kind: text };
  const [kind, wait] = text.split(":", 2);
  const duration = kind === "timeout" && wait !== undefined ? parseDuration(wait) : undefined;
  if (duration !== undefined) return { kind: "timeout", wait: duration };
  throw usageError(
    `--policy ${text}: take ${Object.keys(PLAIN_POLICIES).join(", ")} or timeout:<how long> (timeout:5ms)`,
  );
}

/** Policies without a parameter: the type requires all of them. */
type PlainPolicy = Exclude<PolicyChoice, { kind: "timeout" }>["kind"];
const PLAIN_POLICIES: Readonly<Record<PlainPolicy, true>> = {
  ...{ adaptive: true, deferred: true, eager: true, latest: true, "beta-lambda": true },
};
const isPlainPolicy = (text: string): text is PlainPolicy => Object.hasOwn(PLAIN_POLICIES, text);

/** Parses `0`, `0,2`, `0-7`. */
export function parseGpus(text: string): GpuId[] {
  const ids = new Set<number>();
  for (const part of text.split(",")) {
    const match = /^(\d+)(?:-(\d+))?$/.exec(part.trim());
    const [from, to] = [Number(match?.[1]), Number(match?.[2] ?? match?.[1])];
    if (match === null || to < from || to >= GPUS_MAX) {
      throw usageError(`--gpus ${text}: write ids below ${GPUS_MAX}, such as 0 or 0,2 or 0-7`);
    }
    for (let id = from; id <= to; id++) ids.add(id);
  }
  return [...ids].sort((a, b) => a - b).map(gpuId);
}

export function parsePatience(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (text.trim() !== "" && value >= 0 && value <= 1) return value;
  throw usageError(`--patience ${text}: a number from 0 (lowest latency) to 1 (largest batches)`);
}

export function parseMemory(text: string | undefined): number | undefined {
  const bytes = text === undefined ? undefined : parseBytes(text);
  if (text === undefined || (bytes !== undefined && bytes > 0)) return bytes;
  throw usageError(`--memory ${text}: a size, such as 4GB or 512MB`);
}

/** Parses `mlp,ctr`; undefined: none. */
export function namesOf(flag: string, text: string | undefined): string[] {
  const names = text === undefined || text === "" ? [] : text.split(",");
  const wrong = names.find((name) => !isName(name));
  if (wrong === undefined) return names;
  throw usageError(`--${flag} ${text}: names with commas between them, such as mlp,ctr; "${wrong}" is none`);
}

/** Parses host names without ports, in lower case, as URLs have them. */
export function hostsOf(flag: string, text: string | undefined): string[] {
  const hosts = (text ?? "").split(",").filter((host) => host !== "");
  return hosts.map((host) => {
    const url = URL.canParse(`http://${host}`) ? new URL(`http://${host}`) : undefined;
    if (url?.host === host.toLowerCase() && url.port === "") return url.hostname;
    throw usageError(`--${flag} ${text}: names of hosts with commas between them, without ports; "${host}" is none`);
  });
}

/** Parses a whole number from `least` on. */
export function wholeNumber(flag: string, text: string, max: number, least = 1): number {
  const count = Number(text);
  if (text.trim() !== "" && Number.isInteger(count) && count >= least && count <= max) return count;
  throw usageError(`--${flag} ${text}: a number from ${least} to ${max}`);
}

export function parseWarmup(text: string | undefined): Micros {
  const time = text === undefined ? WARMUP_TIME : parseDuration(text);
  if (time !== undefined && time <= WARMUP_TIME_MAX) return time;
  throw usageError(`--warmup ${text}: a duration up to ${formatDuration(WARMUP_TIME_MAX)}, such as 4s, or 0`);
}

export function parseBudgetShare(text: string | undefined): number {
  const share = text === undefined ? BUDGET_SHARE : Number(text);
  if (text?.trim() !== "" && share >= 0 && share <= 1) return share;
  throw usageError(`--budget-share ${text}: a number from 0 (nothing moves only to balance) to 1`);
}

export function parseEpoch(text: string | undefined): Micros {
  const epoch = text === undefined ? EPOCH : parseDuration(text);
  if (epoch !== undefined && epoch >= EPOCH_LEAST) return epoch;
  throw usageError(`--epoch ${text}: a duration from ${formatDuration(EPOCH_LEAST)} on, such as 30s`);
}

export function parseAcceleratorType(text: string | undefined): string | undefined {
  if (text === undefined || isAcceleratorName(text)) return text;
  throw usageError(
    `--accelerator-type ${text}: a name, such as epyc-9654p: ${NAME_RULE}, and no number as its last word, which would read as a part of an accelerator`,
  );
}

export interface Jitter {
  readonly seed: number;
  readonly spread: number;
}

/** Parses `0.05`, `0.05:7`. */
export function parseJitter(text: string | undefined): Jitter | undefined {
  if (text === undefined) return undefined;
  const [spread = NaN, seed = 1] = text.split(":").map(Number);
  if (!(spread >= 0 && spread < 1) || !Number.isSafeInteger(seed)) {
    throw usageError(`--jitter ${text}: a spread from 0 to below 1, and perhaps a seed, such as 0.05:7`);
  }
  return spread === 0 ? undefined : { seed, spread };
}

export function parsePort(name: string, text: string): number {
  const port = Number(text);
  if (/^\d+$/.test(text) && port < 65_536) return port;
  throw usageError(`--${name} ${text}: a port from 0 to 65535`);
}

export interface HostPort {
  readonly host: string;
  readonly port: number;
}

/** Parses `8003`, which is on loopback, `0.0.0.0:8003` and `[::]:8003`. */
export function parseHostPort(name: string, text: string | undefined): HostPort | undefined {
  if (text === undefined || text === "") return undefined;
  const [, address = LOOPBACK, port = ""] = /^(?:(.+):)?(\d+)$/.exec(text) ?? [];
  if (port !== "") return { host: address.replace(/^\[(.+)\]$/, "$1"), port: parsePort(name, port) };
  throw usageError(`--${name} ${text}: a port, or an address with one, such as 0.0.0.0:8003`);
}

export const optionalPort = (name: string, text: string | undefined): number | undefined =>
  text === undefined ? undefined : parsePort(name, text);

export function oneOf<Choice extends string>(name: string, choices: readonly Choice[], text: string): Choice {
  const choice = choices.find((candidate) => candidate === text);
  if (choice === undefined) throw usageError(`--${name} ${text}: take one of ${choices.join(", ")}`);
  return choice;
}

export function nameOf(flag: string, text: string): string {
  if (isName(text)) return text;
  throw usageError(`--${flag} ${text}: letters, digits, "-" and "_" only`);
}

/** A name counts as remote, whatever its beginning, since it may resolve to any address. */
export const isLoopback = (host: string): boolean =>
  host === "localhost" || host === "::1" || (isIPv4(host) && host.startsWith("127."));

export function httpAddress(name: string, text: string | undefined): string | undefined {
  if (text === undefined || /^https?:$/.test(URL.parse(text)?.protocol ?? "")) return text;
  throw usageError(`--${name} ${text}: an address such as http://127.0.0.1:16686`);
}
