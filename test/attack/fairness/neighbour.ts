/**
 * The other application while one floods the system: ten requests a second over HTTP and ten over NATS to a small
 * model, at their times whether or not the earlier ones are answered. It runs on a thread of its own.
 */
import { once } from "node:events";
import { Worker, isMainThread, parentPort, workerData } from "node:worker_threads";
import { encodeTensors } from "@tutti/wire";
import { ask } from "../clients/http.ts";
import { RawNats } from "../clients/nats.ts";
import type { Target } from "./doors.ts";

/** Its SLO. It asks for less than it gives them, so that the way back counts too. */
export const NEIGHBOUR_SLO_MS = 100;
const EVERY_MS = 100;
/** A time-out longer than any bound, so that the report has the actual delay. */
const GIVE_UP_MS = 10_000;

export const DOORS = ["http", "nats"] as const;
export type Door = (typeof DOORS)[number];

/** One request. */
export interface Asked {
  readonly door: Door;
  readonly atMs: number;
  readonly ms: number;
  /** Undefined: answered rightly. */
  readonly problem?: string;
}

export const isInTime = ({ ms, problem }: Asked): boolean => problem === undefined && ms <= NEIGHBOUR_SLO_MS;

/** The asking thread, as its parent sees it. */
export class Neighbour {
  readonly asked: Asked[] = [];
  readonly #worker: Worker;

  private constructor(worker: Worker) {
    this.#worker = worker;
    worker.on("message", (one: Asked) => this.asked.push(one));
  }

  /** Resolves with the first answer. */
  static async start(target: Target): Promise<Neighbour> {
    const worker = new Worker(new URL(import.meta.url), { workerData: target, execArgv: [] });
    const neighbour = new Neighbour(worker);
    await once(worker, "message");
    return neighbour;
  }

  async stop(): Promise<void> {
    await this.#worker.terminate();
  }
}

if (!isMainThread) await askOn(workerData as Target);

async function askOn({ http, nats: url, key, credentials }: Target): Promise<void> {
  const nats = await RawNats.open(url, credentials);
  nats.subscribe("_INBOX.b.>");
  const body = JSON.stringify({ inputs: [{ name: "x", datatype: "FP32", shape: [1, 4], data: [1, 2, 3, 4] }] });
  const payload = encodeTensors([
    { name: "x", type: "FP32", dims: [1, 4], data: new Uint8Array(Float32Array.of(1, 2, 3, 4).buffer) },
  ]);
  const slo = `${NEIGHBOUR_SLO_MS}ms`;
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json", "tutti-slo": slo };
  let sent = 0;
  const overHttp = async (): Promise<string | undefined> => {
    const { status, text } = await ask(`${http}/v2/models/add-one/infer`, { body, headers, timeoutMs: GIVE_UP_MS });
    return status === 200 && text.includes("[2,3,4,5]") ? undefined : `${status} ${text.slice(0, 200)}`;
  };
  const overNats = async (): Promise<string | undefined> => {
    const reply = `_INBOX.b.${sent++}`;
    const terms = { "Content-Type": "application/vnd.tutti.tensor", "Tutti-Slo": slo };
    nats.publish("infer.add-one.b", payload, { reply, headers: terms });
    const answer = await nats.next(({ subject }) => subject === reply, GIVE_UP_MS);
    if (answer === undefined) return "no answer";
    nats.messages.splice(nats.messages.indexOf(answer), 1);
    return answer.headers.includes("Error") ? answer.headers.replaceAll(/\s+/g, " ").slice(0, 200) : undefined;
  };
  const askOnce = async (door: Door, run: () => Promise<string | undefined>): Promise<void> => {
    const [atMs, startedMs] = [Date.now(), performance.now()];
    const problem = await run();
    const ms = performance.now() - startedMs;
    parentPort?.postMessage({ door, atMs, ms, ...(problem !== undefined && { problem }) } satisfies Asked);
  };
  const askBoth = (): void => {
    void askOnce("http", overHttp);
    void askOnce("nats", overNats);
  };
  askBoth();
  setInterval(askBoth, EVERY_MS);
}
