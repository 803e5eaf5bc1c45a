/**
 * Finds the cluster that a command speaks to. It is `--nats`, else TUTTI_NATS, else the one that `tutti up` started
 * last on this machine.
 */
import { readFile, readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { CommandError, EXIT } from "../failure.ts";

/** The content of `<run directory>/<port>/state.json`, which `tutti up` writes for other commands. */
export interface RunningCluster {
  readonly url: string;
  readonly cluster: string;
  /** Process id of `tutti up`. */
  readonly pid: number;
  readonly startedAt: string;
  /** Credential files by role or application, `admin` for commands; absent on a server without accounts. */
  readonly credentials?: Readonly<Record<string, string>>;
  /** The certificate of its authority; absent: it has no TLS. */
  readonly tlsCa?: string;
}

export interface ClusterOptions {
  readonly nats?: string;
  readonly creds?: string;
  readonly tlsCa?: string;
  readonly cluster?: string;
}

export interface Cluster {
  readonly servers: readonly string[];
  readonly credentials: string | undefined;
  readonly tlsCa: string | undefined;
  readonly cluster: string;
  /** Set when the cluster was found on this machine. */
  readonly running: RunningCluster | undefined;
}

/** The folder for what `tutti up` needs while it runs: `.tutti/run` of the repository, or TUTTI_RUN_DIR. */
export function runRoot(env: NodeJS.ProcessEnv = process.env): string {
  return resolve(env["TUTTI_RUN_DIR"] ?? join(import.meta.dirname, "../../../../.tutti/run"));
}

/** @throws {CommandError} when nothing is named and nothing runs here */
export async function findCluster(options: ClusterOptions, env: NodeJS.ProcessEnv = process.env): Promise<Cluster> {
  const named = options.nats ?? env["TUTTI_NATS"];
  const creds = options.creds ?? env["TUTTI_CREDS"];
  const living = await livingClusters(runRoot(env));
  const running =
    named === undefined
      ? living[0]
      : living.find(({ url }) => named.split(",").some((one) => url.split(",").some((its) => sameServer(one, its))));
  if (named === undefined && running === undefined) {
    const advice = "start one with `tutti up`, or name a NATS server with --nats or TUTTI_NATS";
    throw new CommandError(`no cluster runs on this machine: ${advice}`, EXIT.unavailable);
  }
  return {
    servers: (named ?? running?.url ?? "").split(","),
    credentials: creds ?? running?.credentials?.["admin"],
    tlsCa: options.tlsCa ?? env["TUTTI_TLS_CA"] ?? running?.tlsCa,
    cluster: options.cluster ?? running?.cluster ?? "main",
    running,
  };
}

/** The clusters whose `tutti up` still runs, newest first. */
export async function livingClusters(root: string): Promise<RunningCluster[]> {
  const names = await readdir(root).catch(() => []);
  const states = await Promise.all(names.map((name) => readState(join(root, name, "state.json"))));
  return states
    .filter((state) => state !== undefined)
    .filter(({ pid }) => isAlive(pid))
    .sort((a, b) => (a.startedAt > b.startedAt ? -1 : 1));
}

async function readState(path: string): Promise<RunningCluster | undefined> {
  try {
    const state = JSON.parse(await readFile(path, "utf8")) as RunningCluster;
    return typeof state.url === "string" && Number.isInteger(state.pid) ? state : undefined;
  } catch {
    return undefined; // there is none, or `tutti up` is just writing it
  }
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

const sameServer = (a: string, b: string): boolean => normal(a) === normal(b);
const normal = (url: string): string => {
  const bare = url
    .replace(/^\w+:\/\//, "")
    .replace(/^localhost\b/, "127.0.0.1")
    .replace(/\/$/, "");
  return /:\d+$/.test(bare) ? bare : `${bare}:${NATS_PORT}`;
};
/** Port of a NATS server whose address has none. */
const NATS_PORT = 4222;
