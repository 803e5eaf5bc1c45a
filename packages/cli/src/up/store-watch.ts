/**
 * Has a NATS server whose store was turned off by a full disk started again once there is room. Most writes that fail
 * for want of room just fail; some make the server turn JetStream off until it is started again, and leases, models and
 * plans can't be written then.
 */
import { statfsSync } from "node:fs";

const STORE_OFF = /JetStream out of .*resources, will be DISABLED/;
const LOOK_EVERY_MS = 1_000;
/** Before the server is started again: with less it would be turned off again. */
const FREE_BYTES = 16_777_216;

export interface StoreWatchOptions {
  /** Of the disk on which the store lies. */
  readonly freeBytes: () => number;
  readonly say: (event: "store-full" | "store-room", text: string) => void;
  /** Others go on meanwhile. */
  readonly restart: () => void;
}

export class StoreWatch {
  readonly #options: StoreWatchOptions;
  #looking: NodeJS.Timeout | undefined;

  constructor(options: StoreWatchOptions) {
    this.#options = options;
  }

  /** A line of the server's log. */
  hear(line: string): void {
    if (!STORE_OFF.test(line) || this.#looking !== undefined) return;
    this.#options.say("store-full", "the NATS server's disk is full: nothing is stored until there is room");
    this.#looking = setInterval(() => this.#look(), LOOK_EVERY_MS);
  }

  /** Also when a server begins: its store is on. */
  stop(): void {
    clearInterval(this.#looking);
    this.#looking = undefined;
  }

  #look(): void {
    if (this.#options.freeBytes() < FREE_BYTES) return;
    this.stop();
    this.#options.say("store-room", "the disk has room again: the NATS server is started again");
    this.#options.restart();
  }
}

/** @returns 0 where it can't be told */
export function freeBytes(folder: string): number {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize;
  } catch {
    return 0;
  }
}
