/** Several nodes on this machine with a NATS server of their own, and their costs so far. */
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type NatsServer, startNatsServer, usersOf } from "@tutti/bus-nats";
import { TuttiUp } from "../../e2e/tutti-up.ts";
import { FigureTap, type Figures } from "./figure-tap.ts";

/** The processes that were started for one cluster, by kind. */
export const PARTS = ["nodes", "executors", "nats", "rest"] as const;
export type Part = (typeof PARTS)[number];

/** Totals since the start. */
export interface Costs {
  /** Processor time by part, µs. */
  readonly cpuUs: Readonly<Record<Part, number>>;
  /** Traffic of the NATS server: a message in counts once, and once more for each of its receivers. */
  readonly natsMessages: number;
  readonly natsBytes: number;
}

export interface NodesOptions {
  readonly nodes: number;
  readonly gpus: number;
  readonly executors: number;
  /** Profiles for `--emulate`. */
  readonly profiles: string;
}

export class NodesUnderTest {
  /** HTTP port of each node. */
  readonly ports: readonly number[];
  readonly #nats: NatsServer;
  readonly #up: TuttiUp;
  readonly #tap: FigureTap;
  readonly #dir: string;

  private constructor(parts: {
    readonly nats: NatsServer;
    readonly up: TuttiUp;
    readonly tap: FigureTap;
    readonly dir: string;
  }) {
    this.#nats = parts.nats;
    this.#up = parts.up;
    this.#tap = parts.tap;
    this.#dir = parts.dir;
    this.ports = parts.up.events.flatMap((event) =>
      event.event === "child-ready" && typeof event["http"] === "string" ? [Number(new URL(event["http"]).port)] : [],
    );
  }

  static async start({ nodes, gpus, executors, profiles }: NodesOptions): Promise<NodesUnderTest> {
    const dir = await mkdtemp(join(tmpdir(), "tutti-scale-"));
    const access = { users: usersOf({ cluster: "main", apps: [] }), withLocalUser: true };
    const nats = await startNatsServer({ dir, monitoringPort: 0, access });
    const up = await TuttiUp.start([
      ...["--nats", nats.url, "--creds", join(dir, "creds")],
      ...["--nodes", String(nodes), "--emulate", profiles, "--gpus", String(gpus), "--executors", String(executors)],
      ...["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"],
    ]);
    const tap = await FigureTap.open(nats.url, nats.credentials["admin"] ?? "");
    return new NodesUnderTest({ nats, up, tap, dir });
  }

  /** Resolves when the cluster ends, by itself or by a signal. */
  async ended(): Promise<void> {
    await this.#up.ended();
  }

  /** Costs as of now. */
  async costs(): Promise<Costs> {
    const cpuUs: Record<Part, number> = { nodes: 0, executors: 0, nats: cpuOf(this.#nats.pid ?? 0), rest: 0 };
    for (const pid of this.#up.processes()) cpuUs[partOf(pid)] += cpuOf(pid);
    const varz = (await (await fetch(`${this.#nats.monitoringUrl}/varz`)).json()) as Record<string, number>;
    const sum = (...names: readonly string[]): number => names.reduce((total, name) => total + (varz[name] ?? 0), 0);
    return {
      cpuUs,
      natsMessages: sum("in_msgs", "out_msgs"),
      natsBytes: sum("in_bytes", "out_bytes"),
    };
  }

  /** Figures as of the next report, within a second. */
  figures(): Promise<Figures> {
    return this.#tap.read();
  }

  async stop(): Promise<void> {
    await this.#tap.close();
    await this.#up.stop();
    await this.#nats.stop();
    await rm(this.#dir, { recursive: true, force: true });
  }
}

function partOf(pid: number): Part {
  const roles = /services\/node\/src\/main\.ts\0([a-z,]+)\0/.exec(procFile(pid, "cmdline"))?.[1];
  if (roles === undefined) return "rest";
  return roles === "executor" ? "executors" : "nodes";
}

/** User and system time; clock ticks are 10 ms on every Linux that Node runs on. */
function cpuOf(pid: number): number {
  const fields = procFile(pid, "stat").split(") ").at(-1)?.split(" ") ?? [];
  return (Number(fields[11] ?? 0) + Number(fields[12] ?? 0)) * 10_000;
}

function procFile(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, "latin1");
  } catch {
    return ""; // it ended meanwhile
  }
}
