/** Passwords of registries, where `docker login` keeps them: config.json, or a helper that it names. */
import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { CommandError } from "../failure.ts";

export type RegistryLogin =
  | { readonly kind: "password"; readonly userAndPassword: string }
  /** Exchanged for a token of one repository. */
  | { readonly kind: "identity"; readonly token: string };

interface DockerConfig {
  readonly auths?: Readonly<Record<string, { readonly auth?: string; readonly identitytoken?: string }>>;
  readonly credHelpers?: Readonly<Record<string, string>>;
  readonly credsStore?: string;
}

/** @returns undefined where nobody has logged in: the registry may be public */
export async function registryLogin(
  registry: string,
  env: NodeJS.ProcessEnv = process.env,
): Promise<RegistryLogin | undefined> {
  const config = await dockerConfig(env);
  const key = registry === "docker.io" ? "https://index.docker.io/v1/" : registry;
  const entry = config.auths?.[key] ?? config.auths?.[`https://${registry}`];
  if (entry?.identitytoken) return { kind: "identity", token: entry.identitytoken };
  if (entry?.auth) return { kind: "password", userAndPassword: Buffer.from(entry.auth, "base64").toString() };
  const helper = config.credHelpers?.[registry] ?? config.credsStore;
  return helper === undefined ? undefined : askHelper(helper, key, env);
}

async function dockerConfig(env: NodeJS.ProcessEnv): Promise<DockerConfig> {
  const given = env["DOCKER_AUTH_CONFIG"];
  const path = join(env["DOCKER_CONFIG"] ?? join(env["HOME"] ?? homedir(), ".docker"), "config.json");
  const text = given || (await readFile(path, "utf8").catch(() => "{}"));
  try {
    return JSON.parse(text) as DockerConfig;
  } catch {
    throw new CommandError(`${given ? "DOCKER_AUTH_CONFIG" : path} is no JSON: \`docker login\` writes it`);
  }
}

async function askHelper(helper: string, key: string, env: NodeJS.ProcessEnv): Promise<RegistryLogin | undefined> {
  if (!/^[\w.-]+$/.test(helper)) throw new CommandError(`docker's config.json names a helper "${helper}"`);
  const child = spawn(`docker-credential-${helper}`, ["get"], { env, stdio: ["pipe", "pipe", "ignore"] });
  let said = "";
  child.stdout.on("data", (chunk: Buffer) => (said += chunk.toString()));
  child.stdin.on("error", () => undefined); // it may end without reading
  child.stdin.end(key);
  await new Promise<void>((resolve, reject) => {
    child.once("error", (error: Error) => reject(new CommandError(`docker-credential-${helper}: ${error.message}`)));
    child.once("close", () => resolve());
  });
  try {
    const { Username: user, Secret: secret } = JSON.parse(said) as { Username?: string; Secret?: string };
    if (!user || !secret) return undefined;
    return user === "<token>"
      ? { kind: "identity", token: secret }
      : { kind: "password", userAndPassword: `${user}:${secret}` };
  } catch {
    return undefined; // it knows no login for this registry, and says so in words
  }
}
