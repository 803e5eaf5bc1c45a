/**
 * Restarts a NATS server once there is room again, after a full disk has disabled its store. Most writes without room
 * just fail. Some make the server disable JetStream until it is restarted, and until then leases, models and plans
 * can't be written.
 */
import { statfsSync } from "node:fs";
import { CommandError } from "@tutti/admin";

const STORE_OFF = /JetStream out of .*resources, will be DISABLED/;
const LOOK_EVERY_MS = 1_000;
/** Free space required for a start: with less, the server would disable its store. */
const FREE_BYTES = 16_777_216;

export interface StoreWatchOptions {
  /** Free space of the store's disk. */
  readonly freeBytes: () => number;
  readonly say: (event: "store-full" | "store-room", text: string) => void;
  /** Restarts the server while everything else goes on. */
  readonly restart: () => void;
}

export class StoreWatch {
  readonly #options: StoreWatchOptions;
  #looking: NodeJS.Timeout | undefined;

  constructor(options: StoreWatchOptions) {
    this.#options = options;
  }

  /** Handles a line of the server's log. */
  hear(line: string): void {
    if (!STORE_OFF.test(line) || this.#looking !== undefined) return;
    this.#options.say("store-full", "the NATS server's disk is full: nothing is stored until there is room");
    this.#looking = setInterval(() => this.#look(), LOOK_EVERY_MS);
  }

  /** Stops watching the disk. Also called when a server starts, since its store is on then. */
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

/** @returns undefined: unknown */
export function freeBytes(folder: string): number | undefined {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize;
  } catch {
    return undefined;
  }
}

/**
 * Refuses a start that would fail halfway: a server without room accepts connections, and no write ever ends.
 * @throws {CommandError} saying how much room there is, and what to do
 */
export function checkRoom(folder: string, free = freeBytes(folder)): void {
  if (free === undefined || free >= FREE_BYTES) return;
  const [has, needs] = [free, FREE_BYTES].map((bytes) => `${(bytes / 2 ** 20).toFixed(1)} MiB`);
  throw new CommandError(
    `${folder} has ${has} of room, and a NATS server's store needs ${needs}: free some space there, or name another folder with TUTTI_RUN_DIR`,
  );
}
