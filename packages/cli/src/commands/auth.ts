/** `tutti auth …`: who may connect to a deployment's NATS servers, and with which rights. */
import { chmodSync, existsSync, readFileSync } from "node:fs";
import { hostname } from "node:os";
import { join, resolve } from "node:path";
import { NAME_RULE, appNameProblem, isName } from "@tutti/protocol";
import { AuthDirectory, type ServerPlace, type TlsFiles, writePrivately } from "@tutti/admin/auth";
import { CommandError, makeFolder, usageError } from "@tutti/admin";
import { parsePort } from "@tutti/host";

export interface AuthOptions {
  readonly dir: string;
  readonly json?: boolean;
}

export interface AuthInitOptions extends AuthOptions {
  readonly cluster: string;
  readonly app: readonly string[];
  readonly host: string;
  readonly port: string;
  readonly natsCluster?: string;
  readonly tls?: boolean;
  readonly tlsCa?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly jwt?: boolean;
  readonly expires?: string;
  readonly force?: boolean;
}

/** Lifetime of the authority; servers' certificates are renewed more often (`tutti auth certificate`). */
const AUTHORITY_DAYS = 3_650;
const CERTIFICATE_DAYS = 397;
const ROUTE_PORTS_FROM = 2_000;
const SERVERS_MAX = 9;
const SECONDS: ReadonlyMap<string, number> = new Map(Object.entries({ d: 86_400, h: 3_600, m: 60, s: 1 }));

export async function init(options: AuthInitOptions): Promise<void> {
  if (!isName(options.cluster)) throw usageError(`--cluster ${options.cluster}: ${NAME_RULE}`);
  for (const app of options.app) {
    const problem = appNameProblem(app);
    if (problem !== undefined) throw usageError(`--app: ${problem}`);
  }
  const servers = serversOf(options);
  const given = givenTls(options);
  const expiresInS = secondsOf(options.expires);
  const directory = await AuthDirectory.create(
    options.dir,
    {
      cluster: options.cluster,
      servers,
      apps: [...new Set(options.app)],
      tokens: options.jwt === true || expiresInS !== undefined ? "jwt" : "nkeys",
      ...(expiresInS !== undefined && { expiresInS }),
    },
    options.force === true ? "replace" : "keep",
  );
  if (given !== undefined) directory.useTls(given);
  else if (options.tls === true) directory.useTls(await makeCertificates(directory));
  const configs = await directory.write();
  say(
    options,
    { dir: directory.dir, configs, users: directory.users.map(({ name }) => name) },
    initText(directory, configs),
  );
}

export async function addApp(app: string, options: AuthOptions & { readonly expires?: string }): Promise<void> {
  const directory = AuthDirectory.open(options.dir);
  const path = await directory.addApp(app, secondsOf(options.expires));
  await applied(directory, options, `${app}: ${path}`, { app, path });
}

export async function renew(name: string, options: AuthOptions & { readonly expires?: string }): Promise<void> {
  const directory = AuthDirectory.open(options.dir);
  const path = await directory.renew(name, secondsOf(options.expires));
  await applied(directory, options, `${name}: ${path}`, { name, path });
}

export async function revoke(name: string, options: AuthOptions): Promise<void> {
  const directory = AuthDirectory.open(options.dir);
  directory.revoke(name);
  await applied(directory, options, `${name} is revoked`, { name });
}

/** Writes the servers' configurations again, after auth.json was edited: because servers have moved, for example. */
export async function write(options: AuthOptions): Promise<void> {
  const configs = await AuthDirectory.open(options.dir).write("all");
  say(options, { configs }, configs.join("\n"));
}

/** Signs another certificate, for an ingress on another host or in place of one that expires. */
export async function certificate(
  name: string,
  options: AuthOptions & { readonly hosts: string; readonly days: string },
): Promise<void> {
  if (!isName(name)) throw usageError(`"${name}" becomes a file's name: ${NAME_RULE}`);
  const { dir } = AuthDirectory.open(options.dir);
  if (!existsSync(join(dir, "tls", "ca-key.pem")))
    throw new CommandError(`${dir} has no authority of its own: \`tutti auth init --tls\` makes one`);
  const days = Number(options.days);
  if (!(days >= 1 && days <= AUTHORITY_DAYS)) throw usageError(`--days ${options.days}: 1 to ${AUTHORITY_DAYS}`);
  const authority = {
    certificate: readFileSync(join(dir, "tls", "ca.pem"), "utf8"),
    key: readFileSync(join(dir, "tls", "ca-key.pem"), "utf8"),
  };
  const { signServer } = await import("./certificates.ts");
  const signed = await signServer(authority, options.hosts.split(","), days);
  const files = writePair(dir, name, signed);
  say(options, files, `${files.cert}\n${files.key}`);
}

async function applied(
  directory: AuthDirectory,
  options: AuthOptions,
  text: string,
  fields: Readonly<Record<string, unknown>>,
): Promise<void> {
  await directory.write();
  const reloaded = directory.concernsServers ? directory.reload() : 0;
  const elsewhere = directory.concernsServers ? directory.servers.length - reloaded : 0;
  const hint =
    elsewhere === 0
      ? ""
      : `\n${elsewhere} of ${directory.servers.length} servers don't run here: give them their configuration, and \`nats-server --signal reload\``;
  say(options, { ...fields, reloaded }, `${text}${hint}`);
}

function serversOf(options: AuthInitOptions): ServerPlace[] {
  const port = parsePort("port", options.port);
  const hosts = options.host.split(",").map((host) => host.trim());
  const count = options.natsCluster === undefined ? hosts.length : Number(options.natsCluster);
  if (!(Number.isInteger(count) && count >= 1 && count <= SERVERS_MAX))
    throw usageError(`--nats-cluster ${options.natsCluster}: 1 to ${SERVERS_MAX} servers`);
  if (hosts.length > 1 && hosts.length !== count)
    throw usageError(`--host names ${hosts.length} hosts for ${count} servers: one for all, or one each`);
  if (hosts.some((host) => host === "")) throw usageError(`--host ${options.host}: addresses separated by commas`);
  return Array.from({ length: count }, (_, i) => {
    // Servers on one host need ports of their own.
    const own = port + (hosts.length === 1 ? i : 0);
    const name = count === 1 ? "tutti" : `tutti-${i}`;
    return { name, host: hosts[i] ?? hosts[0] ?? "", port: own, routePort: count === 1 ? 0 : own + ROUTE_PORTS_FROM };
  });
}

function givenTls({ tls, tlsCa, tlsCert, tlsKey }: AuthInitOptions): TlsFiles | undefined {
  if (tlsCa === undefined && tlsCert === undefined && tlsKey === undefined) return undefined;
  if (tls === true)
    throw usageError("--tls makes certificates; --tls-ca, --tls-cert and --tls-key are for those that you have");
  if (tlsCa === undefined || tlsCert === undefined || tlsKey === undefined)
    throw usageError("--tls-ca, --tls-cert and --tls-key go together");
  const [ca, cert, key] = [tlsCa, tlsCert, tlsKey].map((path) => {
    if (!existsSync(path)) throw usageError(`there is no file ${path}`);
    return resolve(path);
  });
  return { ca: ca!, cert: cert!, key: key! };
}

/**
 * Makes an authority, a certificate for the NATS servers, and one for ingresses, whose hosts don't need the servers'
 * key.
 */
async function makeCertificates(directory: AuthDirectory): Promise<TlsFiles> {
  const { dir, servers, cluster } = directory;
  makeFolder(join(dir, "tls"));
  chmodSync(join(dir, "tls"), 0o700);
  const { createAuthority, signServer } = await import("./certificates.ts");
  const authority = await createAuthority(cluster, AUTHORITY_DAYS);
  const ca = writePair(dir, "ca", authority).cert;
  const listening = servers.map(({ host }) => host).filter((host) => host !== "0.0.0.0" && host !== "::");
  const hosts = [...new Set([...listening, hostname(), "localhost", "127.0.0.1", "::1"])];
  const nats = writePair(dir, "nats", await signServer(authority, hosts, CERTIFICATE_DAYS));
  writePair(dir, "ingress", await signServer(authority, hosts, CERTIFICATE_DAYS));
  return { ca, ...nats };
}

function writePair(
  dir: string,
  name: string,
  pair: { readonly certificate: string; readonly key: string },
): { readonly cert: string; readonly key: string } {
  const [cert, key] = [join(dir, "tls", `${name}.pem`), join(dir, "tls", `${name}-key.pem`)];
  writePrivately(cert, pair.certificate);
  writePrivately(key, pair.key);
  return { cert, key };
}

/** Parses a length of time such as `30d`, in seconds. @throws {CommandError} the text is no such length of time */
export function secondsOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const [, count, unit = ""] = /^(\d{1,6})([dhms])$/.exec(text.trim()) ?? [];
  const seconds = Number(count) * (SECONDS.get(unit) ?? NaN);
  if (seconds >= 1 && seconds <= AUTHORITY_DAYS * 86_400) return seconds;
  throw usageError(`--expires ${text}: how long credentials are good, such as 30d, 12h or 90s`);
}

function initText(directory: AuthDirectory, configs: readonly string[]): string {
  const { dir, servers, tls } = directory;
  const url = servers.map(({ host, port }) => `nats://${host === "0.0.0.0" ? hostname() : host}:${port}`).join(",");
  const ca = tls === undefined ? "" : ` --tls-ca ${tls.ca}`;
  const file = (user: string): string => join(dir, "creds", `${user}.${directory.hasTokens ? "creds" : "nk"}`);
  return [
    `${directory.users.length} users in ${join(dir, "creds")}`,
    ...configs.map((path) => `nats-server -c ${path}`),
    `tutti run ingress --nats ${url} --creds ${file("ingress")} --answers-creds ${file("answers")}${ca}`,
    `tutti models --nats ${url} --creds ${file("admin")}${ca}`,
  ].join("\n");
}

/** Prints text, or with --json one object. */
export function say(options: AuthOptions, fields: Readonly<Record<string, unknown>>, text: string): void {
  process.stdout.write(`${options.json === true ? JSON.stringify(fields) : text}\n`);
}
