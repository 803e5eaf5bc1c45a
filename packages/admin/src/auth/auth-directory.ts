/**
 * A deployment's identity: its users with their keys, and the configuration of its NATS servers. All of it lies in one
 * directory that only its owner can read. `auth.json` holds the decisions; every other file except keys and
 * certificates is generated from it.
 */
import { randomBytes } from "node:crypto";
import { chmodSync, existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import {
  type Authority,
  type NatsUser,
  createNkey,
  createSigningAuthority,
  issueUser,
  jwtAccess,
  natsConfig,
  natsUsersConfig,
  reloadNatsServer,
  usersOf,
} from "@tutti/bus-nats";
import { appNameProblem, isName } from "@tutti/protocol";
import { CommandError, usageError } from "../failure.ts";
import { makeFolder } from "../make-folder.ts";
import { API_KEYS_FILE } from "./api-keys.ts";

export interface ServerPlace {
  readonly name: string;
  readonly host: string;
  readonly port: number;
  /** Port at which the other servers of its cluster reach it; 0 for a single server. */
  readonly routePort: number;
}

type Jwt = Awaited<ReturnType<typeof jwtAccess>>;

/** Absolute paths of PEM files. */
export interface TlsFiles {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

interface KnownUser {
  readonly name: string;
  readonly publicKey: string;
  /** Seconds since 1970, in deployments with tokens. */
  readonly expiresAt?: number;
}

/** The content of auth.json. */
interface State {
  readonly version: 1;
  readonly cluster: string;
  readonly servers: readonly ServerPlace[];
  readonly routePassword: string;
  readonly tls?: TlsFiles;
  /** Present: users have signed tokens, which can expire, instead of public keys in the servers' configuration. */
  readonly authority?: Authority;
  readonly users: readonly KnownUser[];
  readonly revoked: readonly { readonly publicKey: string; readonly at: number }[];
}

export interface NewDeployment {
  readonly cluster: string;
  readonly servers: readonly ServerPlace[];
  readonly apps: readonly string[];
  readonly tokens: "nkeys" | "jwt";
  /** Lifetime of applications' tokens, in seconds; undefined: unlimited. */
  readonly expiresInS?: number;
}

export class AuthDirectory {
  readonly dir: string;
  #state: State;
  /** A new token needs no change at the servers. They must reload for revocations, and for users with keys. */
  #concernsServers = false;

  private constructor(dir: string, state: State) {
    this.dir = dir;
    this.#state = state;
  }

  /** @throws {CommandError} the directory has a deployment already, and `existing` does not allow to replace it */
  static async create(path: string, fresh: NewDeployment, existing: "keep" | "replace"): Promise<AuthDirectory> {
    const dir = resolve(path);
    if (existsSync(join(dir, "auth.json")) && existing === "keep")
      throw new CommandError(
        `${dir} has a deployment's keys already: --force makes new ones, and the old are void then`,
      );
    // API keys may have been made before, in a folder of their own: only `replace` removes them.
    const before = ["auth.json", "creds", "tls", ...(existing === "replace" ? [API_KEYS_FILE] : [])];
    for (const old of before) rmSync(join(dir, old), { recursive: true, force: true });
    for (const folder of [dir, join(dir, "creds")]) {
      makeFolder(folder);
      chmodSync(folder, 0o700); // it may have been there
    }
    const made = new AuthDirectory(dir, {
      version: 1,
      cluster: fresh.cluster,
      servers: fresh.servers,
      routePassword: randomBytes(24).toString("base64url"),
      ...(fresh.tokens === "jwt" && { authority: await createSigningAuthority() }),
      users: [],
      revoked: [],
    });
    made.#concernsServers = true;
    for (const user of usersOf({ cluster: fresh.cluster, apps: fresh.apps })) {
      const expires = user.name.startsWith(APP) && fresh.expiresInS !== undefined;
      await made.#issue(user, expires ? fresh.expiresInS : undefined);
    }
    return made;
  }

  /** @throws {CommandError} there is no auth.json, or it can't be read */
  static open(path: string): AuthDirectory {
    const dir = resolve(path);
    let text: string;
    try {
      text = readFileSync(join(dir, "auth.json"), "utf8");
    } catch (cause) {
      throw new CommandError(`${dir} has no auth.json: \`tutti auth init --dir ${path}\` makes one`, undefined, cause);
    }
    return new AuthDirectory(dir, readState(text, join(dir, "auth.json")));
  }

  get cluster(): string {
    return this.#state.cluster;
  }
  get servers(): readonly ServerPlace[] {
    return this.#state.servers;
  }
  get tls(): TlsFiles | undefined {
    return this.#state.tls;
  }
  get users(): readonly KnownUser[] {
    return this.#state.users;
  }
  /** Whether servers must reload their configuration because of the changes. */
  get concernsServers(): boolean {
    return this.#concernsServers;
  }
  get hasTokens(): boolean {
    return this.#state.authority !== undefined;
  }

  /** Requires TLS of the servers from the next `write` on. */
  useTls(files: TlsFiles): void {
    this.#concernsServers = true;
    this.#state = { ...this.#state, tls: files };
  }

  /**
   * Issues a new key for an application or a role, and voids the one before.
   * @returns the path of its file
   */
  async renew(name: string, expiresInS: number | undefined): Promise<string> {
    if (expiresInS !== undefined && !this.hasTokens)
      throw usageError(
        "keys in a server's configuration don't expire: `tutti auth init --jwt` makes credentials that do",
      );
    const user = this.#userNamed(name);
    this.#void(user.name);
    return this.#issue(user, expiresInS);
  }

  async addApp(app: string, expiresInS: number | undefined): Promise<string> {
    checkApp(app);
    if (this.#state.users.some(({ name }) => name === `${APP}${app}`))
      throw new CommandError(`application ${app} has credentials already: \`tutti auth renew ${app}\` makes new ones`);
    return this.renew(app, expiresInS);
  }

  /** Voids a user's credentials from the next `write` on. */
  revoke(name: string): void {
    const { users } = this.#state;
    const user = users.find((known) => known.name === name) ?? users.find((known) => known.name === `${APP}${name}`);
    if (user === undefined) {
      const names = this.#state.users.map((known) => known.name.replace(APP, "")).join(", ");
      throw new CommandError(`nobody is called ${name} here: there are ${names}`);
    }
    this.#void(user.name);
  }

  /**
   * Writes auth.json, and the servers' configurations if they have changed.
   *
   * @param configurations - `all`: also if nothing has changed here, as after auth.json was edited
   * @returns the paths of the configurations that were written
   */
  async write(configurations: "changed" | "all" = "changed"): Promise<string[]> {
    const { servers, authority, revoked, cluster } = this.#state;
    writePrivately(join(this.dir, "auth.json"), `${JSON.stringify(this.#state, undefined, 2)}\n`);
    if (!this.#concernsServers && configurations === "changed") return [];
    const since = Object.fromEntries(revoked.map(({ publicKey, at }) => [publicKey, at]));
    const jwt = authority && (await jwtAccess(authority, cluster, since));
    // For servers whose other settings are kept elsewhere, such as those of the Helm chart.
    writePrivately(join(this.dir, "users.conf"), natsUsersConfig(this.#accessOf(jwt)));
    writePrivately(join(this.dir, "route-password"), this.#state.routePassword);
    return servers.map((server, i) => {
      const path = this.#configPath(i);
      writePrivately(path, this.#configOf(server, i, jwt));
      return path;
    });
  }

  /** Makes the servers that run on this machine reload their configuration. @returns how many */
  reload(): number {
    return this.#state.servers.filter((_, i) => reloadNatsServer(this.#pidPath(i))).length;
  }

  #configOf(server: ServerPlace, i: number, jwt: Jwt | undefined): string {
    const { servers, cluster, tls, routePassword } = this.#state;
    const serverTls = tls && { certFile: tls.cert, keyFile: tls.key, caFile: tls.ca };
    return natsConfig({
      host: server.host,
      port: server.port,
      serverName: server.name,
      storeDir: join(this.dir, servers.length === 1 ? "store" : `store-${i}`),
      pidFile: this.#pidPath(i),
      ...this.#accessOf(jwt),
      ...(serverTls !== undefined && { tls: serverTls }),
      ...(servers.length > 1 && {
        cluster: {
          name: cluster,
          host: server.host,
          port: server.routePort,
          routes: servers.map(({ host, routePort }) => `${host}:${routePort}`),
          password: routePassword,
          ...(serverTls !== undefined && { tls: serverTls }),
        },
      }),
    });
  }

  #accessOf(jwt: Jwt | undefined): Parameters<typeof natsUsersConfig>[0] {
    const { users, cluster } = this.#state;
    if (jwt !== undefined) return { account: cluster, jwt };
    const known = new Map(users.map(({ name, publicKey }) => [name, publicKey]));
    const apps = users.filter(({ name }) => name.startsWith(APP)).map(({ name }) => name.slice(APP.length));
    for (const app of apps) {
      const problem = appNameProblem(app); // releases before this rule gave such names credentials
      if (problem === undefined) continue;
      throw new CommandError(`${problem}; \`tutti auth revoke ${APP}${app}\` takes its credentials back`);
    }
    const withKeys = usersOf({ cluster, apps }).flatMap((user) => {
      const publicKey = known.get(user.name);
      return publicKey === undefined ? [] : [{ ...user, publicKey }];
    });
    return { account: cluster, users: withKeys };
  }

  #configPath(i: number): string {
    return join(this.dir, this.#state.servers.length === 1 ? "nats.conf" : `nats-${i}.conf`);
  }
  #pidPath(i: number): string {
    return join(this.dir, this.#state.servers.length === 1 ? "nats.pid" : `nats-${i}.pid`);
  }
  #credsPath(name: string): string {
    return join(this.dir, "creds", `${name}.${this.hasTokens ? "creds" : "nk"}`);
  }

  #userNamed(name: string): NatsUser {
    const { cluster } = this.#state;
    const roles = usersOf({ cluster, apps: [] });
    const role = roles.find((user) => user.name === name);
    if (role !== undefined) return role;
    const app = name.startsWith(APP) ? name.slice(APP.length) : name;
    checkApp(app);
    const user = usersOf({ cluster, apps: [app] }).find((candidate) => candidate.name === `${APP}${app}`);
    if (user === undefined) throw usageError(`"${name}" is neither a role nor an application`);
    return user;
  }

  async #issue(user: NatsUser, expiresInS: number | undefined): Promise<string> {
    const { authority } = this.#state;
    const expiresAt = expiresInS === undefined ? undefined : Math.floor(Date.now() / 1_000) + expiresInS;
    const path = this.#credsPath(user.name);
    let publicKey: string;
    if (authority === undefined) {
      const made = createNkey(user);
      publicKey = made.publicKey;
      this.#concernsServers = true;
      writePrivately(path, made.text);
    } else {
      const issued = await issueUser(authority, user, expiresAt);
      publicKey = issued.publicKey;
      writePrivately(path, issued.creds);
    }
    const known: KnownUser = { name: user.name, publicKey, ...(expiresAt !== undefined && { expiresAt }) };
    this.#state = { ...this.#state, users: [...this.#state.users, known] };
    return path;
  }

  #void(name: string): void {
    const user = this.#state.users.find((known) => known.name === name);
    if (user === undefined) return;
    this.#concernsServers = true;
    const revoked = { publicKey: user.publicKey, at: Math.floor(Date.now() / 1_000) };
    this.#state = {
      ...this.#state,
      users: this.#state.users.filter((known) => known !== user),
      // A key that is missing from the configuration is refused; a token must be listed as revoked.
      ...(this.hasTokens && { revoked: [...this.#state.revoked, revoked] }),
    };
    rmSync(this.#credsPath(name), { force: true });
  }
}

const APP = "app-";

function checkApp(app: string): void {
  const problem = appNameProblem(app);
  if (problem !== undefined) throw usageError(problem);
}

/** Writes by renaming into place: a server that reloads never reads half of a file. */
export function writePrivately(path: string, text: string): void {
  writeFileSync(`${path}.new`, text, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

function readState(text: string, path: string): State {
  let state: Partial<State>;
  try {
    state = JSON.parse(text) as Partial<State>;
  } catch (cause) {
    throw new CommandError(`${path} is no JSON`, undefined, cause);
  }
  const isWhole =
    typeof state === "object" &&
    state !== null &&
    state.version === 1 &&
    typeof state.cluster === "string" &&
    isName(state.cluster) &&
    typeof state.routePassword === "string" &&
    Array.isArray(state.servers) &&
    Array.isArray(state.users) &&
    Array.isArray(state.revoked) &&
    state.users.every((user: unknown) => typeof (user as KnownUser | null)?.publicKey === "string");
  if (!isWhole) throw new CommandError(`${path} is not what \`tutti auth init\` writes`);
  return state as State;
}
