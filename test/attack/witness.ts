/**
 * The other clients while a system is attacked: a health probe and an application. They run on a thread of their own,
 * so that they feel the system's delays and not the attacker's.
 */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { type AttackedSystem, MEMORY_BYTES, type Size } from "./attack.ts";

/** Longest wait of a health probe: beyond it an orchestrator restarts the process. */
// The short form shares its machine with other tests.
export const HEALTH_MS: Readonly<Record<Size, number>> = { long: 1_000, short: 2_000 };
/** SLO of the application's requests, with room for a machine that the attacker shares. */
export const GOOD_SLO_MS = 1_000;

export interface WitnessOrders {
  readonly http: string;
  readonly pid: number;
  readonly authorization: string | undefined;
}

export interface WitnessReport {
  readonly probes: number;
  readonly healthMsMax: number;
  readonly asked: number;
  /** Outcomes of requests whose second try failed too. */
  readonly failed: readonly string[];
  /** Most memory of the process beyond what it had at the start. */
  readonly grownBytesMax: number;
}

export class Witness {
  readonly #worker: Worker;

  private constructor(worker: Worker) {
    this.#worker = worker;
  }

  /** Resolves once a first request has been served. */
  static async start({ http, pid, keys }: AttackedSystem): Promise<Witness> {
    const authorization = keys === undefined ? undefined : `Bearer ${keys.b}`;
    const workerData: WitnessOrders = { http, pid, authorization };
    const worker = new Worker(new URL("./witness-thread.ts", import.meta.url), { workerData, execArgv: [] });
    await once(worker, "message");
    return new Witness(worker);
  }

  /** Ends the witness after a last look, now that the attack is over. */
  async stop(): Promise<WitnessReport> {
    this.#worker.postMessage("stop");
    const [report] = (await once(this.#worker, "message")) as [WitnessReport];
    await this.#worker.terminate();
    return report;
  }
}

/** Expectations that the report breaks, a sentence each. */
export function breachesOf(
  { healthMsMax, failed, grownBytesMax }: WitnessReport,
  size: Size,
  memoryBytes = MEMORY_BYTES,
): string[] {
  const [first] = failed;
  return [
    ...(healthMsMax > HEALTH_MS[size]
      ? [`a health probe waited ${Math.round(healthMsMax)} ms, not ${HEALTH_MS[size]}`]
      : []),
    ...(first === undefined ? [] : [`another application's requests failed ${failed.length} times: ${first}`]),
    ...(grownBytesMax > memoryBytes
      ? [`the process grew by ${megabytes(grownBytesMax)}, not ${megabytes(memoryBytes)}`]
      : []),
  ];
}

export const megabytes = (bytes: number): string => `${Math.round(bytes / 1_048_576)} MB`;

/** Memory of a process in bytes: PSS, or RSS where the kernel has no PSS. 0: it has ended. */
export function memoryOf(pid: number): number {
  for (const [file, pattern] of [
    ["smaps_rollup", /^Pss:\s+(\d+) kB/m],
    ["status", /^VmRSS:\s+(\d+) kB/m],
  ] as const) {
    try {
      const kilobytes = pattern.exec(readFileSync(`/proc/${pid}/${file}`, "utf8"))?.[1];
      if (kilobytes !== undefined) return 1_024 * Number(kilobytes);
    } catch {
      // A kernel without `smaps_rollup` has `status`.
    }
  }
  return 0;
}
