/** `~/.netrc`, or the file that NETRC names: passwords by host, as curl, git and pip read them. */
import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";

/** @returns the value of an `Authorization` header for the host, if the file names it */
export async function netrcAuthorization(host: string, env: NodeJS.ProcessEnv): Promise<string | undefined> {
  const path = env["NETRC"] || join(env["HOME"] || homedir(), ".netrc");
  const text = await readFile(path, "utf8").catch(() => "");
  const entry = entryOf(text, host);
  if (entry === undefined) return undefined;
  return basic(`${entry.login}:${entry.password}`);
}

export const basic = (userAndPassword: string): string => `Basic ${Buffer.from(userAndPassword).toString("base64")}`;

/** The first entry of the host; `default` stands for all hosts and is left out, since a typing error would get it. */
export function entryOf(text: string, host: string): { login: string; password: string } | undefined {
  const words = text
    .replaceAll(/^\s*#.*$/gm, "")
    .replaceAll(/^\s*macdef\b[^]*?(?:\n[ \t]*\n|$(?![^]))/gm, "\n")
    .split(/\s+/);
  for (let at = words.indexOf("machine"); at >= 0; at = words.indexOf("machine", at + 1)) {
    if (words[at + 1]?.toLowerCase() !== host.toLowerCase()) continue;
    const found = { login: "", password: "" };
    for (let i = at + 2; i + 1 < words.length && words[i] !== "machine" && words[i] !== "default"; i += 2) {
      if (words[i] === "login") found.login = words[i + 1]!;
      if (words[i] === "password") found.password = words[i + 1]!;
    }
    return found;
  }
  return undefined;
}
