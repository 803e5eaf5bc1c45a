/** Client behaviour besides plain requests: cancelling, disconnecting, connecting and leaving, and loading models. */
import { connect as connectSocket } from "node:net";
import { connect } from "@tutti/client";
import type { StruckCluster } from "../e2e/chaos/cluster.ts";
import { WIDTH } from "../e2e/chaos/models.ts";

export interface DisturbanceCounts {
  cancels: number;
  abortedBodies: number;
  connects: number;
  loads: number;
  /** Loads that failed while nothing was struck. */
  readonly failedLoads: string[];
}

const CANCEL_MS = 500;
const ABORT_MS = 400;
const CONNECT_MS = 1_000;
const LOAD_MS = 15_000;
const APP = "soak";

export interface DisturbanceOptions {
  readonly cluster: StruckCluster;
  /** Path of a model, beside its config.yaml. */
  readonly model: string;
  /** Whether something was struck within the last seconds. */
  readonly isStruck: () => boolean;
}

export class Disturbances {
  readonly counts: DisturbanceCounts = { cancels: 0, abortedBodies: 0, connects: 0, loads: 0, failedLoads: [] };
  readonly #options: DisturbanceOptions;
  readonly #running: Promise<void>[];
  #isStopping = false;
  #wake: () => void = () => undefined;
  readonly #stopped: Promise<void>;

  constructor(options: DisturbanceOptions) {
    this.#options = options;
    this.#stopped = new Promise((resolve) => (this.#wake = resolve));
    this.#running = [
      this.#repeat(CANCEL_MS, () => this.#cancel()),
      this.#repeat(ABORT_MS, () => this.#abort()),
      this.#repeat(CONNECT_MS, () => this.#connect()),
      this.#repeat(LOAD_MS, () => this.#load()),
    ];
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#wake();
    await Promise.all(this.#running);
  }

  async #repeat(everyMs: number, act: () => Promise<void>): Promise<void> {
    while (!this.#isStopping) {
      await act();
      let timer: NodeJS.Timeout | undefined;
      await Promise.race([this.#stopped, new Promise((resolve) => (timer = setTimeout(resolve, everyMs)))]);
      clearTimeout(timer);
    }
  }

  get #http(): string {
    return this.#options.cluster.gateways(this.counts.connects)[0]?.url ?? "";
  }

  /** A request that its client cancels at once, on a connection that ends with it. */
  async #cancel(): Promise<void> {
    await this.#withClient(async (client) => {
      const abort = new AbortController();
      const asked = client.infer("echo-0", { x: [new Array<number>(WIDTH).fill(1)] }, { signal: abort.signal });
      setImmediate(() => abort.abort());
      await asked;
    });
    this.counts.cancels++;
  }

  async #connect(): Promise<void> {
    await this.#withClient((client) => client.infer("echo-1", { x: [new Array<number>(WIDTH).fill(1)] }));
    this.counts.connects++;
  }

  async #withClient(use: (client: Awaited<ReturnType<typeof connect>>) => Promise<unknown>): Promise<void> {
    try {
      const client = await connect({ servers: this.#options.cluster.up.url, app: APP });
      try {
        await use(client);
      } finally {
        await client.close();
      }
    } catch {
      // The load reports the outcomes of requests.
    }
  }

  /** Sends half a body, and nothing after it. */
  async #abort(): Promise<void> {
    const { hostname: host, port } = new URL(this.#http);
    await new Promise<void>((resolve) => {
      const socket = connectSocket({ host, port: Number(port) }, () => {
        socket.write(`POST /v2/models/echo-0/infer HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 200000\r\n\r\n`);
        socket.write(Buffer.alloc(100_000, 0x20), () => socket.destroy());
      });
      socket.on("error", () => undefined);
      socket.once("close", () => resolve());
    });
    this.counts.abortedBodies++;
  }

  async #load(): Promise<void> {
    const { cluster, model, isStruck } = this.#options;
    const wasStruck = isStruck();
    for (const words of [
      ["load", model, "--name", "passing"],
      ["unload", "passing"],
    ]) {
      const { code, stderr } = await cluster.up.command(...words);
      if (code !== 0 && !wasStruck && !isStruck()) this.counts.failedLoads.push(`${words[0]}: ${stderr.slice(0, 200)}`);
    }
    this.counts.loads++;
  }
}
