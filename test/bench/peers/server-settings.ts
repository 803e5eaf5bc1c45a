import type { ServedModel } from "./served-models.ts";

/** Settings of a server, as JSON in PEERS_SETTINGS: the bare server and those in python/ read the same. */
export interface ServerSettings {
  readonly port: number;
  readonly models: readonly ServedModel[];
  /** Workers: one, or the emulated accelerators. */
  readonly executors: number;
  readonly batchMax: number;
  /** How long a batch waits for company, at most. */
  readonly waitMs: number;
  /** Latency bound, for servers that take one instead of a wait. */
  readonly latencyMaxMs: number;
  /** Whether requests and answers are raw tensors, where a server has no binary form of its own. */
  readonly isBinary: boolean;
  /** A folder of the server's own. */
  readonly workspace: string;
}
