import type { ServedModel } from "./served-models.ts";

/** What a server is told, as JSON in PEERS_SETTINGS: the bare one and those in python/ read the same. */
export interface ServerSettings {
  readonly port: number;
  readonly models: readonly ServedModel[];
  /** Workers: one, or the emulated accelerators. */
  readonly executors: number;
  readonly batchMax: number;
  /** How long a batch waits for company, at most. */
  readonly waitMs: number;
  /** For servers that are told how long answers may take instead. */
  readonly latencyMaxMs: number;
  /** Requests and answers are raw tensors, where a server has no form of its own for them. */
  readonly isBinary: boolean;
  /** A folder of its own. */
  readonly workspace: string;
}
