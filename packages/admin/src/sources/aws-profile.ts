/** The shared files of AWS: `~/.aws/credentials` and `~/.aws/config`. */
import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";

export interface AwsProfile {
  readonly name: string;
  /** Keys of both files; those of the file of credentials come first. */
  readonly settings: Readonly<Record<string, string>>;
}

/** The profile that AWS_PROFILE names, else `default`; without settings where there is none. */
export async function awsProfile(env: NodeJS.ProcessEnv): Promise<AwsProfile> {
  const name = env["AWS_PROFILE"] || "default";
  const folder = join(env["HOME"] || homedir(), ".aws");
  const [config, credentials] = await Promise.all([
    read(env["AWS_CONFIG_FILE"] || join(folder, "config")),
    read(env["AWS_SHARED_CREDENTIALS_FILE"] || join(folder, "credentials")),
  ]);
  const section = name === "default" ? "default" : `profile ${name}`;
  return { name, settings: { ...sectionOf(config, section), ...sectionOf(credentials, name) } };
}

const read = (path: string): Promise<string> => readFile(path, "utf8").catch(() => "");

/** Keys of one section. Indented lines belong to a nested setting, such as `s3 =`, and are passed over. */
export function sectionOf(text: string, name: string): Record<string, string> {
  const found: Record<string, string> = {};
  let isInside = false;
  for (const line of text.split(/\r?\n/)) {
    const [, section] = /^\[\s*(.+?)\s*\]/.exec(line) ?? [];
    if (section !== undefined) isInside = section.replaceAll(/\s+/g, " ") === name;
    const [, key, value] = /^([A-Za-z_][\w-]*)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
    if (isInside && key !== undefined) found[key.toLowerCase()] = value!;
  }
  return found;
}
