/** Starts the systems that are attacked, each as its documentation describes. */
import { readFileSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { generateAddOne, generateCnn } from "@tutti/onnx-tools";
import { TuttiUp, tutti } from "../e2e/tutti-up.ts";
import { freePorts, startConfigured } from "../fixtures/configured-nats.ts";
import type { ApiKeys, AttackedSystem, SystemKind, Tenants } from "./attack.ts";
import { TURNS_FILE } from "./fairness/turns.ts";

const TOKEN = "token-of-the-attacked-0123456789abcdef";
/** Numbers in a row of `wide`: as JSON, a body so large that another thread parses it. */
export const WIDE = 14_000;
/** Samples of a sound that `hear` takes: 30 s. */
export const HEARD = 480_000;
const LATENCIES = "latencies: { alpha: 1ms, beta: 1ms }";

const MODELS = [
  { name: "add-one", bytes: () => generateAddOne({ width: 4 }), config: `slo: 10s\nmax_batch_size: 8\n${LATENCIES}\n` },
  { name: "wide", bytes: () => generateAddOne({ width: WIDE }), config: `slo: 10s\nmax_batch_size: 8\n${LATENCIES}\n` },
  {
    name: "see",
    // The size of a picture of which the longest side is shrunk by less than a million.
    bytes: () => generateCnn({ size: 64 }),
    config: `slo: 10s\nmax_batch_size: 8\npreprocess: { image: { mean: 0.5, std: 0.5 } }\n${LATENCIES}\n`,
  },
  {
    name: "hear",
    bytes: () => generateAddOne({ width: HEARD }),
    config: `slo: 10s\nmax_batch_size: 8\npreprocess: { audio: { sample_rate: 16000 } }\n${LATENCIES}\n`,
  },
] as const;

interface Started {
  readonly up: TuttiUp;
  readonly keys?: ApiKeys | undefined;
  readonly tenants?: Tenants;
  /** Folder of the credentials. */
  readonly credentials?: string;
  readonly stop?: () => Promise<void>;
}

export async function startSystem(kind: SystemKind): Promise<AttackedSystem> {
  const folder = await mkdtemp(join(tmpdir(), "tutti-attack-"));
  try {
    const args = await argsFor(kind, folder);
    const started = await START[kind](folder, args);
    return await describe(started, folder);
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

async function argsFor(kind: SystemKind, folder: string): Promise<string[]> {
  const hasAll = kind === "open" || kind === "tenants";
  for (const { name, bytes, config } of MODELS) {
    if (!hasAll && name !== "add-one") continue;
    if (name === "hear" && kind !== "tenants") continue;
    const model = join(folder, "models", name);
    await mkdir(join(model, "1"), { recursive: true });
    await writeFile(join(model, "1/model.onnx"), bytes());
    await writeFile(join(model, "config.yaml"), config);
  }
  await writeFile(join(folder, "token"), `${TOKEN}\n`, { mode: 0o600 });
  return [
    ...["--no-demo", "--models", join(folder, "models"), "--executors", hasAll ? "2" : "1"],
    ...["--patience", "0", "--admin-token", join(folder, "token")],
    ...["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"],
    ...(hasAll && process.platform === "linux" ? ["--system-shared-memory"] : []),
  ];
}

const START: Readonly<Record<SystemKind, (folder: string, args: readonly string[]) => Promise<Started>>> = {
  open: async (_, args) => ({ up: await TuttiUp.start(args) }),

  descriptors: async (_, args) => ({
    up: await TuttiUp.start(args, undefined, "ready", ["sh", "-c", 'ulimit -n 256 && exec "$0" "$@"']),
  }),

  credentials: (folder, args) => startWithCredentials(folder, args),

  tenants: async (folder, args) => {
    const turnsFile = join(folder, "turns");
    const probe = fileURLToPath(new URL("fairness/turn-probe.ts", import.meta.url));
    const wrapper = ["env", `NODE_OPTIONS=--import=${probe}`, `${TURNS_FILE}=${turnsFile}`];
    const { serverPid, ...started } = await startWithCredentials(folder, args, wrapper);
    return { ...started, tenants: { serverPid, turnsFile } };
  },
};

async function startWithCredentials(
  folder: string,
  args: readonly string[],
  wrapper: readonly string[] = [],
): Promise<Started & { readonly serverPid: number }> {
  const dir = join(folder, "tutti-auth");
  const [port] = await freePorts(1);
  await succeed("auth", "init", "--dir", dir, "--port", `${port}`, "--app", "a", "b");
  const server = await startConfigured(join(dir, "nats.conf"));
  try {
    const keys = await apiKeys(dir);
    const access = keys === undefined ? [] : ["--api-keys", join(dir, "api-keys.json")];
    const credentials = join(dir, "creds");
    const own = ["--nats", `nats://127.0.0.1:${port}`, "--creds", credentials, ...args, ...access];
    const up = await TuttiUp.start(own, undefined, "ready", wrapper);
    return { up, keys, credentials, serverPid: server.pid, stop: () => server.stop() };
  } catch (error) {
    await server.stop();
    throw error;
  }
}

/** API keys; undefined where this version makes none. The attacks that need them then fail. */
async function apiKeys(dir: string): Promise<ApiKeys | undefined> {
  const texts: string[] = [];
  for (const words of [["a"], ["b"], ["operations", "--admin"]]) {
    const { code, stdout } = await tutti(["auth", "key", "add", ...words, "--dir", dir, "--json"]);
    if (code !== 0) return undefined;
    texts.push((JSON.parse(stdout) as { readonly key: string }).key);
  }
  const [a = "", b = "", admin = ""] = texts;
  return { a, b, admin };
}

async function succeed(...args: string[]): Promise<void> {
  const { code, stderr } = await tutti(args);
  if (code !== 0) throw new Error(`tutti ${args.join(" ")} ended with ${code}: ${stderr}`);
}

async function describe({ up, keys, tenants, credentials, stop }: Started, folder: string): Promise<AttackedSystem> {
  const ready = await up.next("child-ready", ({ http }) => http !== undefined);
  return {
    up,
    http: String(ready["http"]),
    grpc: String(ready["grpc"]),
    metrics: String(ready["metrics"]),
    nats: up.url,
    pid: up.pidOf("node"),
    adminToken: keys?.admin ?? TOKEN,
    ...{ keys, tenants },
    credentialsOf: (user) => {
      if (credentials === undefined) throw new Error("this system has no credentials");
      return readFileSync(join(credentials, `${user}.nk`), "utf8");
    },
    async stop() {
      await up.stop();
      await stop?.();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
