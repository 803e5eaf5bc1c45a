/** The NATS server of one `tutti up`: started for it and kept alive, or one that runs already. */
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { type NatsServer, startNatsServer, usersOf } from "@tutti/bus-nats";
import { ROLES, TuttiError } from "@tutti/protocol";
import { CommandError } from "../failure.ts";
import type { Announcer } from "./announcer.ts";
import { freePort, isFree } from "./free-port.ts";
import { RunDirectory } from "./run-directory.ts";
import type { UpOptions } from "./up-options.ts";

export interface ServingNats {
  readonly url: string;
  /** Undefined for a server that is not ours. */
  readonly port: number | undefined;
  readonly directory: RunDirectory;
  /** Paths of credential files by user: the roles, `admin`, `app-<app>`; empty on a server without accounts. */
  readonly credentials: Readonly<Record<string, string>>;
  stop(): Promise<void>;
  /** At once and without asking. */
  kill(): void;
}

export const CLUSTER = "main";
const PORT_DEFAULT = 4222;
/** A server that dies, or can't be started, more often than this within a minute is not kept alive any longer. */
const DEATHS_MAX = 8;
const DEATHS_WITHIN_MS = 60_000;
/** Its port may still be taken, its store still be locked. */
const RETRY_MS = 250;
const PORT_ATTEMPTS = 5;

/** @throws {CommandError | TuttiError} saying why there is none, and what to do */
export async function provideNats(options: UpOptions, announcer: Announcer): Promise<ServingNats> {
  if (options.nats !== undefined) return existingNats(options.nats, options.creds);
  for (let attempt = 1; ; attempt++) {
    const port = options.port ?? (await freePort(attempt === 1 ? PORT_DEFAULT : 0));
    if (options.port !== undefined && port !== 0 && !(await isFree(port))) {
      throw new CommandError(`port ${port} is taken: name another with --port, or use what runs there with --nats`);
    }
    try {
      return await ownNats(port === 0 ? await freePort(0) : port, options, announcer);
    } catch (error) {
      // Between looking and listening someone else may have taken it.
      if (options.port !== undefined || attempt >= PORT_ATTEMPTS || !(error instanceof TuttiError)) throw error;
      if (!/address already in use/.test(error.message)) throw error;
    }
  }
}

/** @param creds - a file for all of them, or a folder with one for each, as `tutti auth init` makes it */
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
  if (!statSync(creds, { throwIfNoEntry: false })?.isDirectory()) return creds;
  const path = ["nk", "creds"].map((kind) => join(creds, `${user}.${kind}`)).find((file) => existsSync(file));
  if (path === undefined) throw new CommandError(`--creds ${creds}: there are no credentials of ${user} in it`);
  return path;
}

async function ownNats(port: number, options: UpOptions, announcer: Announcer): Promise<ServingNats> {
  const directory = new RunDirectory(String(port));
  const log = directory.openLog("nats-server");
  const { tls } = options;
  const start = (): Promise<NatsServer> =>
    startNatsServer({
      dir: directory.path,
      port,
      // Applications with credentials of their own mean that nobody may ask without any.
      access: { users: usersOf({ cluster: CLUSTER, apps: options.apps }), withLocalUser: options.apps.length === 0 },
      ...(tls?.cert !== undefined &&
        tls.key !== undefined && { tls: { certFile: tls.cert, keyFile: tls.key, caFile: tls.ca } }),
      onLog: (line) => log.write(line),
      onSlowConsumer: (connection) =>
        announcer.say("slow-consumer", `the NATS server cut off ${connection}, which read too slowly`, { connection }),
    });
  let server = await start();
  let stopping = false;
  const keepAlive = async (): Promise<void> => {
    let restarts = 0;
    const deaths: number[] = [];
    const mayStart = (): boolean => {
      const now = performance.now();
      deaths.push(now);
      while (deaths[0]! < now - DEATHS_WITHIN_MS) deaths.shift();
      return !stopping && deaths.length <= DEATHS_MAX;
    };
    for (;;) {
      await server.died;
      if (stopping) return;
      announcer.say("nats-died", `the NATS server ended; see ${directory.logs}/nats-server.log`, {
        restarts: ++restarts,
      });
      for (let isBack = false; !isBack;) {
        if (!mayStart()) return announcer.say("nats-lost", `the NATS server is not started again: it died too often`);
        try {
          server = await start();
          isBack = true;
        } catch (error) {
          announcer.say("nats-died", `the NATS server can't be started again: ${(error as Error).message}`);
          await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
        }
      }
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
      await server.stop();
      log.close();
    },
    kill() {
      stopping = true;
      void server.kill();
    },
  };
}
