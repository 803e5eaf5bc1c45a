import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { TuttiError } from "@tutti/protocol";
import { type UserFile, writeCredentials } from "./credentials-files.ts";
import { findNatsServer } from "./nats-binary.ts";
import { type ClusterConfig, type ServerTls, natsConfig } from "./nats-config.ts";
import { inOwnGroup } from "./process-group.ts";
import type { NatsUser } from "./users.ts";

/** Recovering a large store takes time. */
const READY_WITHIN_MS = 20_000;

export interface NatsServerOptions {
  /** Default: `findNatsServer()`. */
  readonly binary?: string;
  /** Directory of the configuration, the credentials and the store. Made if it is not there. */
  readonly dir: string;
  readonly host?: string;
  /** 0 (the default): a free port, kept over restarts. */
  readonly port?: number;
  /** HTTP monitoring on loopback; 0: a free port. Default: none. */
  readonly monitoringPort?: number;
  /** Users and their permissions (`usersOf`). Default: no accounts, every connection may do everything: for tests. */
  readonly access?: { readonly users: readonly NatsUser[]; readonly withLocalUser: boolean };
  readonly payloadBytesMax?: number;
  /** Time after which a consumer that reads nothing is cut off. Default 10 s. */
  readonly writeDeadlineMs?: number;
  readonly serverName?: string;
  /** With it, connections without TLS are refused. */
  readonly tls?: ServerTls;
  readonly cluster?: ClusterConfig;
  /** Called with each line of the server's log. */
  readonly onLog?: (line: string) => void;
  /**
   * Called when the server cuts a connection that did not read. It gets the connection's name, as `connectNats` sets
   * it, and the line of the log.
   */
  readonly onSlowConsumer?: (connection: string, line: string) => void;
}

export interface NatsServer {
  readonly url: string;
  readonly port: number;
  readonly monitoringUrl: string | undefined;
  readonly pid: number | undefined;
  /** Paths of the credential files by user: the roles, `answers`, `admin`, `app-<app>`. Empty without `access`. */
  readonly credentials: Readonly<Record<string, string>>;
  /** Settles when the server ends unasked; with the end of its log. */
  readonly died: Promise<string>;
  /** SIGTERM, and SIGKILL if that is not enough. The store stays. */
  stop(): Promise<void>;
  /** Sends SIGTERM, as if by another process: `died` then settles. */
  terminate(): void;
  /** SIGKILL. */
  kill(): Promise<void>;
  /** Starts it again on the same port and store, after `kill`, `stop`, or while it runs. */
  restart(): Promise<void>;
}

/**
 * Halves the server's time in garbage collection, for some 20 MB of memory. Large messages make much garbage
 * (docs/architecture.md, 8).
 */
const GOGC = "400";
/**
 * Memory from which the server collects garbage sooner. Five times the live heap (GOGC) is 250 MB once it keeps its
 * last 10,000 closed connections. It is no hard limit: the live heap may take more.
 */
const GOMEMLIMIT = "128MiB";
const STOP_MS = 5_000;
const LOG_LINES_KEPT = 30;
/** First line of what Go prints when a program dies of itself. */
const CRASH = /^(panic|fatal error|SIG[A-Z]+): /;

/** Starts a nats-server that ends with this process, even if that is killed. Resolves when it answers. */
export async function startNatsServer(options: NatsServerOptions): Promise<NatsServer> {
  const server = new SpawnedServer(options);
  await server.start();
  return server;
}

class SpawnedServer implements NatsServer {
  readonly credentials: Readonly<Record<string, string>>;
  readonly died: Promise<string>;
  readonly #options: NatsServerOptions;
  readonly #binary: string;
  readonly #users: readonly UserFile[] | undefined;
  readonly #killOnExit = (): void => void this.#child?.kill("SIGKILL");
  #reportDeath: (log: string) => void = () => {};
  #child: ChildProcess | undefined;
  #port: number;
  #monitoringUrl: string | undefined;
  #log: string[] = [];

  constructor(options: NatsServerOptions) {
    this.#options = options;
    this.#binary = options.binary ?? findNatsServer();
    this.#port = options.port ?? 0;
    this.#users = options.access && writeCredentials(join(options.dir, "creds"), options.access.users);
    this.credentials = Object.fromEntries((this.#users ?? []).map(({ name, path }) => [name, path]));
    this.died = new Promise((resolve) => (this.#reportDeath = resolve));
  }

  get url(): string {
    return `nats://${this.#options.host ?? "127.0.0.1"}:${this.#port}`;
  }
  get port(): number {
    return this.#port;
  }
  get monitoringUrl(): string | undefined {
    return this.#monitoringUrl;
  }
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  async start(): Promise<void> {
    const env = { GOGC, GOMEMLIMIT, ...process.env };
    const { command, args, options } = inOwnGroup(this.#binary, ["-c", this.#writeConfig()], env);
    const child = spawn(command, args, { ...options, stdio: ["ignore", "ignore", "pipe"] });
    this.#child = child;
    const watchdog = spawnWatchdog(child);
    process.on("exit", this.#killOnExit);
    child.once("exit", () => {
      process.off("exit", this.#killOnExit);
      watchdog?.kill();
      if (this.#child !== child) return;
      this.#child = undefined;
      this.#reportDeath(this.#log.join("\n"));
    });
    try {
      await this.#ready(child);
    } catch (error) {
      await this.kill();
      throw error;
    }
  }

  async stop(): Promise<void> {
    const child = this.#release();
    if (child === undefined) return;
    const ended = once(child, "exit");
    child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
    await ended;
    clearTimeout(timer);
  }

  terminate(): void {
    this.#child?.kill("SIGTERM");
  }

  async kill(): Promise<void> {
    const child = this.#release();
    if (child === undefined) return;
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  }

  async restart(): Promise<void> {
    await this.stop();
    await this.start();
  }

  /** Detaches the child: its end is expected from here on. */
  #release(): ChildProcess | undefined {
    const child = this.#child;
    this.#child = undefined;
    return child?.exitCode === null && child.signalCode === null ? child : undefined;
  }

  #writeConfig(): string {
    const { dir, host, monitoringPort, access, payloadBytesMax, writeDeadlineMs, serverName, tls, cluster } =
      this.#options;
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    const path = join(dir, "nats.conf");
    const text = natsConfig({
      port: this.#port,
      storeDir: join(dir, "store"),
      withLocalUser: access?.withLocalUser ?? false,
      ...(host !== undefined && { host }),
      ...(monitoringPort !== undefined && { monitoringPort }),
      ...(payloadBytesMax !== undefined && { payloadBytesMax }),
      ...(writeDeadlineMs !== undefined && { writeDeadlineMs }),
      ...(serverName !== undefined && { serverName }),
      ...(tls !== undefined && { tls }),
      ...(cluster !== undefined && { cluster }),
      ...(this.#users !== undefined && { users: this.#users }),
    });
    try {
      // Renamed into place: on a full disk the file of the previous start stays whole.
      writeFileSync(`${path}.new`, text, { mode: 0o600 });
      renameSync(`${path}.new`, path);
    } catch (error) {
      // With a given port the old file says the same, except for a random password that nobody uses.
      if ((this.#options.port ?? 0) === 0 || !existsSync(path)) throw error;
    }
    return path;
  }

  /** Keeps the log's last lines; of a crash its reason and the first of its many goroutines. */
  #keep(line: string): void {
    if (this.#log.length === LOG_LINES_KEPT) {
      if (CRASH.test(this.#log[0]!)) return;
      this.#log.shift();
    }
    this.#log.push(line);
  }

  /** Waits for the server's log to name its ports and to report that it is ready. */
  async #ready(child: ChildProcess): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const fail = (what: string) => {
      const text = `nats-server (${this.#binary}) ${what}:\n${this.#log.join("\n")}`;
      reject(new TuttiError("TUTTI_UNAVAILABLE", text, { retryable: false }));
    };
    const lines = createInterface({ input: child.stderr! });
    lines.on("line", (line) => {
      this.#keep(line);
      this.#options.onLog?.(line);
      if (line.includes("Slow Consumer Detected")) this.#options.onSlowConsumer?.(connectionIn(line), line);
      const port = /Listening for client connections on .*:(\d+)$/.exec(line)?.[1];
      if (port !== undefined) this.#port = Number(port);
      this.#monitoringUrl =
        /Starting http monitor on (\S+)$/.exec(line)?.[1]?.replace(/^/, "http://") ?? this.#monitoringUrl;
      if (line.endsWith("Server is ready")) resolve();
    });
    child.once("error", (error) => fail(`cannot be run (${error.message})`));
    lines.once("close", () => fail("ended at once"));
    const timer = setTimeout(() => fail("was not ready in time"), READY_WITHIN_MS);
    try {
      await promise;
    } finally {
      clearTimeout(timer);
    }
  }
}

/**
 * Ends the server when this process ends. An exit handler does not run when the process is killed, but the watchdog's
 * input ends in any case. Where there is no shell (Windows), only the handler is left.
 */
function spawnWatchdog(child: ChildProcess): ChildProcess | undefined {
  if (child.pid === undefined || process.platform === "win32") return undefined;
  const watchdog = spawn("/bin/sh", ["-c", 'read -r _; kill -TERM "$0"', String(child.pid)], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  watchdog.once("error", () => {});
  watchdog.unref();
  // The pipe must not keep this process alive.
  (watchdog.stdin as unknown as { unref(): void } | null)?.unref();
  return watchdog;
}

/**
 * Name of the connection in a log line, or else its address. A line: `… 127.0.0.1:53412 - cid:7 -
 * "v3.4.0:nats.ws:tutti-executor bulk" - Slow Consumer Detected: …`.
 */
function connectionIn(line: string): string {
  const [, address = "?", name] = /(\S+) - cid:\d+(?: - "([^"]*)")?/.exec(line) ?? [];
  return name?.split(":").at(-1) ?? address;
}
