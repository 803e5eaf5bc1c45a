/** Reads a context of the nats command line: `~/.config/nats/context/<name>.json`. */
import { readFile, readdir } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { isRecord } from "./record.ts";
import type { ClusterOptions } from "../cluster/find-cluster.ts";
import { usageError } from "../failure.ts";
import { didYouMean } from "../nearest.ts";

const folderOf = (env: NodeJS.ProcessEnv): string =>
  join(env["XDG_CONFIG_HOME"] || join(env["HOME"] || homedir(), ".config"), "nats/context");

/** @throws {CommandError} there is no context of this name, or it can't be read */
export async function readContext(
  name: string,
  env: NodeJS.ProcessEnv = process.env,
): Promise<Pick<ClusterOptions, "nats" | "creds" | "tlsCa">> {
  const folder = folderOf(env);
  const names = (await readdir(folder).catch(() => []))
    .filter((file) => file.endsWith(".json"))
    .map((file) => file.slice(0, -".json".length));
  if (!names.includes(name)) {
    const known = names.length === 0 ? "there are none" : `there are ${names.sort().slice(0, 16).join(", ")}`;
    throw usageError(`--context ${name}: no such context in ${folder}${didYouMean(name, names)}; ${known}`);
  }
  let context: unknown;
  try {
    context = JSON.parse(await readFile(join(folder, `${name}.json`), "utf8"));
  } catch (cause) {
    throw usageError(`--context ${name}: ${(cause as Error).message}`);
  }
  if (!isRecord(context)) throw usageError(`--context ${name}: it is no JSON object`);
  const text = (key: string): string | undefined => {
    const value = context[key];
    return typeof value === "string" && value !== "" ? value : undefined;
  };
  const creds = text("creds") ?? text("nkey");
  const tlsCa = text("ca");
  return {
    nats: text("url") ?? "nats://127.0.0.1:4222",
    ...(creds !== undefined && { creds }),
    ...(tlsCa !== undefined && { tlsCa }),
  };
}
