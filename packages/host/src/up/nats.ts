/** The NATS server of one `tutti up`: one that is started and kept alive, or one that runs already. */
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { type NatsServer, startNatsServer, usersOf } from "@tutti/bus-nats";
import { ROLES, TuttiError } from "@tutti/protocol";
import { CommandError, EXIT } from "@tutti/admin";
import { freePort, isFree } from "@tutti/admin/cluster";
import type { Announcer } from "./announcer.ts";
import { RunDirectory, explainUnwritable } from "./run-directory.ts";
import { StoreWatch, checkRoom, freeBytes } from "./store-watch.ts";
import type { UpOptions } from "./up-options.ts";

export interface ServingNats {
  readonly url: string;
  /** Undefined for a server that was not started here. */
  readonly port: number | undefined;
  readonly directory: RunDirectory;
  /** Paths of credential files by user: the roles, `admin`, `app-<app>`; empty on a server without accounts. */
  readonly credentials: Readonly<Record<string, string>>;
  stop(): Promise<void>;
  /** Kills the server at once. */
  kill(): void;
}

export const CLUSTER = "main";
const PORT_DEFAULT = 4222;
/**
 * Delay before another start. The port may still be taken, or the store still locked; on a full disk a start is
 * possible only later.
 */
const RETRY_MS = 250;
const RETRY_MS_MAX = 5_000;
/** A server that has lived for so long is restarted at once. */
const HEALTHY_MS = 60_000;
const PORT_ATTEMPTS = 5;

/** @throws {CommandError | TuttiError} saying why there is no server, and what to do */
export async function provideNats(options: UpOptions, announcer: Announcer): Promise<ServingNats> {
  try {
    return await serverFor(options, announcer);
  } catch (error) {
    throw explainUnwritable(error);
  }
}

async function serverFor(options: UpOptions, announcer: Announcer): Promise<ServingNats> {
  if (options.nats !== undefined) return existingNats(options.nats, options.creds);
  for (let attempt = 1; ; attempt++) {
    const port = options.port ?? (await freePort(attempt === 1 ? PORT_DEFAULT : 0));
    if (options.port !== undefined && port !== 0 && !(await isFree(port))) {
      throw new CommandError(`port ${port} is taken: name another with --port, or use what runs there with --nats`);
    }
    try {
      return await ownNats(port === 0 ? await freePort(0) : port, options, announcer);
    } catch (error) {
      // Another process may have taken the port between the check and the start.
      if (options.port !== undefined || attempt >= PORT_ATTEMPTS || !(error instanceof TuttiError)) throw error;
      if (!/address already in use/.test(error.message)) throw error;
    }
  }
}

/** @param creds - a file for all users, or a folder with one for each, as `tutti auth init` makes it */
function existingNats(url: string, creds: string | undefined): ServingNats {
  const users = creds === undefined ? [] : [...ROLES, "node", "answers", "admin", "agent", "recorder"];
  return {
    url,
    port: undefined,
    directory: new RunDirectory(`with-${process.pid}`),
    credentials: Object.fromEntries(users.map((user) => [user, credentialsOf(user, creds ?? "")])),
    stop: () => Promise.resolve(),
    kill: () => undefined,
  };
}

function credentialsOf(user: string, creds: string): string {
  if (!isFolder(creds)) return creds;
  const path = ["nk", "creds"].map((kind) => join(creds, `${user}.${kind}`)).find((file) => existsSync(file));
  if (path === undefined) throw new CommandError(`--creds ${creds}: there are no credentials of ${user} in it`);
  return path;
}

/** @throws {CommandError} the path can't be followed, such as through a folder of another user */
function isFolder(creds: string): boolean {
  try {
    return statSync(creds, { throwIfNoEntry: false })?.isDirectory() ?? false;
  } catch (error) {
    const why = (error as Error).message;
    throw new CommandError(
      `--creds can't be read (${why}): name a file or folder that this user may read`,
      EXIT.failed,
      error,
    );
  }
}

async function ownNats(port: number, options: UpOptions, announcer: Announcer): Promise<ServingNats> {
  const directory = new RunDirectory(String(port));
  checkRoom(directory.path);
  const log = directory.openLog("nats-server");
  const { tls } = options;
  let current: NatsServer | undefined;
  const storeWatch = watchStore(directory, announcer, () => current?.terminate()); // `keepAlive` starts it again
  const start = async (): Promise<NatsServer> => {
    storeWatch.stop();
    return (current = await startNatsServer({
      dir: directory.path,
      port,
      // If applications have their own credentials, requests without credentials are refused.
      access: { users: usersOf({ cluster: CLUSTER, apps: options.apps }), withLocalUser: options.apps.length === 0 },
      ...(tls?.cert !== undefined &&
        tls.key !== undefined && { tls: { certFile: tls.cert, keyFile: tls.key, caFile: tls.ca } }),
      onLog: (line) => {
        log.write(line);
        storeWatch.hear(line);
      },
      onSlowConsumer: (connection) =>
        announcer.say("slow-consumer", `the NATS server cut off ${connection}, which read too slowly`, { connection }),
    }));
  };
  let server = await start();
  let stopping = false;
  const keepAlive = async (): Promise<void> => {
    let restarts = 0;
    let startedAt = performance.now();
    let waitMs = 0;
    for (;;) {
      await server.died;
      if (stopping) return;
      announcer.say("nats-died", `the NATS server ended; see ${directory.logs}/nats-server.log`, {
        restarts: ++restarts,
      });
      if (performance.now() - startedAt >= HEALTHY_MS) waitMs = 0;
      for (let isBack = false; !isBack;) {
        await new Promise((resolve) => setTimeout(resolve, waitMs));
        if (stopping) return;
        waitMs = Math.min(RETRY_MS_MAX, Math.max(RETRY_MS, 2 * waitMs));
        try {
          server = await start();
          isBack = true;
        } catch (error) {
          announcer.say("nats-died", `the NATS server can't be started again: ${(error as Error).message}`);
        }
      }
      startedAt = performance.now();
      if (stopping) return void server.kill();
      announcer.say("nats-back", `the NATS server is back: ${server.url}`, { url: server.url });
    }
  };
  void keepAlive();
  return {
    url: server.url,
    port,
    directory,
    credentials: server.credentials,
    async stop() {
      stopping = true;
      storeWatch.stop();
      await server.stop();
      log.close();
    },
    kill() {
      stopping = true;
      void server.kill();
    },
  };
}

const watchStore = ({ path }: RunDirectory, announcer: Announcer, restart: () => void): StoreWatch =>
  new StoreWatch({
    freeBytes: () => freeBytes(path) ?? 0,
    say: (event, text) => announcer.say(event, text),
    restart,
  });
