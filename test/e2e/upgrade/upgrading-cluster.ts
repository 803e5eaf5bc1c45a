/** Two nodes, two executors and two publishers on one NATS server; each is a process of one release or another. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { ClusterView, latestOf } from "@tutti/admin/operators";
import { type NatsFixture, startNats } from "../../fixtures/nats.ts";

/** Roles of a node that serving needs. */
const ROLES_OF_NODE = ["ingress", "batcher", "ranker", "profiler"] as const;
const READY_MS = 90_000;
/** An actor that drains ends after 9 s at the latest. */
const DRAINED_MS = 20_000;

/** Folder of a release. */
export type ReleaseFolder = string;

export interface LoadResult {
  readonly asked: number;
  readonly statuses: Readonly<Record<string, number>>;
}

interface Member {
  readonly child: ChildProcess;
  readonly errors: () => string;
}

export class UpgradingCluster {
  readonly #nats: NatsFixture;
  readonly #members = new Map<string, Member>();
  /** Every process that was started and has not ended: a test that fails leaves none behind. */
  readonly #running = new Set<ChildProcess>();

  readonly #view = new ClusterView();
  /** A start takes processor time from those that serve: compiled code is kept, and warm-up requests are left out. */
  readonly #env = { ...process.env, NODE_COMPILE_CACHE: join(tmpdir(), "tutti-compiled"), TUTTI_WARMUP: "0" };
  /** ModelThreads that batchers must hold. */
  #threads = 0;

  private constructor(nats: NatsFixture) {
    this.#nats = nats;
  }

  static async start(): Promise<UpgradingCluster> {
    const cluster = new UpgradingCluster(await startNats());
    cluster.#view.listen((await cluster.connect()).control, "main");
    return cluster;
  }

  /** Loads the models with a release's code. */
  async publish(release: ReleaseFolder, threads: number): Promise<void> {
    await this.#program("publish-models.ts", release);
    this.#threads = threads;
    await this.#whole(0);
  }
  /** Releases of the actors, as they say themselves. */
  async releases(): Promise<string[]> {
    // An actor reports its release with its figures, some time after it serves.
    await this.#view.until(() => this.#view.actors().every((actor) => latestOf(actor) !== undefined), READY_MS);
    return [...new Set(this.#view.actors().map((actor) => latestOf(actor)?.release ?? "older"))].sort();
  }
  get url(): string {
    return this.#nats.url;
  }
  connect(): ReturnType<NatsFixture["connect"]> {
    return this.#nats.connect();
  }

  /** Starts a process of that release; one that drives an accelerator replaces its predecessor, others join first. */
  async replace(name: string, release: ReleaseFolder): Promise<void> {
    const before = this.#members.get(name);
    if (name.startsWith("executor") && before !== undefined) await this.#end(before);
    const after = await this.#startRole(name, release);
    this.#members.set(name, after);
    if (!name.startsWith("executor") && before !== undefined) {
      await this.#whole(1);
      await this.#end(before);
    }
    await this.#whole(0);
  }

  #startRole(name: string, release: ReleaseFolder): Promise<Member> {
    const [role, number = "0"] = name.split("-");
    const args =
      role === "executor"
        ? ["executor", "--engine", "emulated", "--gpus", number]
        : [ROLES_OF_NODE.join(), "--reply-scope", "any"];
    return this.#run(name, [`${release}/services/node/src/main.ts`, ...args, "--nats", this.url]);
  }

  /** Waits as `tutti restart` does until everybody is there and serves, and `more` nodes besides. */
  async #whole(more: number): Promise<void> {
    const nodes = [...this.#members.keys()].filter((name) => name.startsWith("node")).length;
    const executors = this.#members.size - nodes;
    const isWhole = (): boolean => {
      const { actors, leaders, serving, threads } = this.#view.wholeness();
      const counts = ROLES_OF_NODE.map((role) => actors[role] ?? 0);
      if (counts.some((count) => count !== nodes + more) || (actors.executor ?? 0) !== executors) return false;
      return (nodes === 0 || leaders === 1) && serving.length === executors && threads === this.#threads;
    };
    if (!(await this.#view.until(isWhole, READY_MS)))
      throw new Error(`not everybody serves: ${JSON.stringify(this.#view.wholeness())}`);
  }

  /** Runs a program of this folder with a release's code, to its end. */
  async #program(file: string, release: ReleaseFolder): Promise<void> {
    const child = this.#track(
      spawn(process.execPath, [own(file), release, this.url], { stdio: ["ignore", "ignore", "pipe"] }),
    );
    const errors = textOf(child);
    const [code] = (await once(child, "close")) as [number | null];
    if (code !== 0) throw new Error(`${file} ended with ${code}:\n${errors()}`);
  }

  /** Starts requests through a release's client; resolves when some are answered. @returns what ends them */
  async load(release: ReleaseFolder): Promise<() => Promise<LoadResult>> {
    const { child } = await this.#run("load", [own("load-process.ts"), release, this.url, "echo"]);
    return async () => {
      const told = once(child, "message") as Promise<[LoadResult]>;
      child.send("stop");
      return (await told)[0];
    };
  }

  async #run(name: string, args: readonly string[]): Promise<Member> {
    const child = this.#track(
      spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe", "ipc"], env: this.#env }),
    );
    const errors = textOf(child);
    const failed = once(child, "exit").then(([code]) => {
      throw new Error(`${name} ended with ${code} before it was ready:\n${errors().slice(-4_000)}`);
    });
    failed.catch(() => undefined);
    await Promise.race([once(child, "message", { signal: AbortSignal.timeout(READY_MS) }), failed]);
    return { child, errors };
  }

  #track(child: ChildProcess): ChildProcess {
    this.#running.add(child);
    child.once("exit", () => this.#running.delete(child));
    return child;
  }

  /** Drains a process as an upgrade does. */
  async #end({ child }: Member): Promise<void> {
    const ended = once(child, "exit", { signal: AbortSignal.timeout(DRAINED_MS) });
    child.kill("SIGTERM");
    await ended;
  }

  async stop(): Promise<void> {
    for (const child of this.#running) child.kill("SIGKILL");
    await this.#nats.stop();
  }
}

const own = (file: string): string => fileURLToPath(new URL(file, import.meta.url));

/** The last output of a process, for people. */
function textOf(child: ChildProcess): () => string {
  let text = "";
  for (const stream of [child.stdout, child.stderr])
    stream?.on("data", (chunk: Buffer) => (text = (text + chunk.toString()).slice(-20_000)));
  return () => text;
}
