/**
 * The sockets of one server: bounded in all and by address, so that no client takes what others need.
 *
 *   CN1. When full, a new connection displaces one whose client waits for no answer: the oldest with an incomplete
 *        request, else the oldest answered one. A health probe thus gets in though thousands of slow clients hold
 *        theirs.
 *   CN2. A client that waits for our answer keeps its connection: where all do, the new connection is closed.
 */
import { readFileSync } from "node:fs";
import type { Socket } from "node:net";

/** Sockets of one server at once. */
export const CONNECTIONS_MAX = 4_096;
/** Sockets of one address: a proxy in front is one address. */
export const ADDRESS_CONNECTIONS_MAX = 2_048;
/** Files that a process needs beside its clients' sockets: connections to NATS, threads, models. */
const OTHER_FILES = 128;
/** Number of servers: HTTP, gRPC and metrics. */
const SERVERS = 3;

/**
 * `asks`: its request is incomplete, or it doesn't read its answer; `waits`: for our answer; `idle`: it was answered.
 */
export type ClientState = "asks" | "waits" | "idle";

interface Connection {
  readonly socket: Socket;
  readonly address: string;
  readonly state: () => ClientState;
}

export interface ConnectionLimits {
  readonly all: number;
  readonly ofAddress: number;
}

export class Connections {
  readonly #limits: ConnectionLimits;
  /** Oldest first. */
  readonly #open = new Set<Connection>();
  readonly #ofAddress = new Map<string, number>();

  constructor(limits: ConnectionLimits = limitsOfProcess()) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#open.size;
  }

  /** @returns whether the socket may stay; otherwise it is closed already */
  admit(socket: Socket, state: () => ClientState): boolean {
    const address = networkOf(socket.remoteAddress ?? "");
    const isCrowded = this.#countOf(address) >= this.#limits.ofAddress;
    const hasRoom = isCrowded ? this.#makeRoom(address) : this.#open.size < this.#limits.all || this.#makeRoom();
    if (!hasRoom) {
      socket.destroy();
      return false;
    }
    const connection = { socket, address, state };
    this.#open.add(connection);
    this.#ofAddress.set(address, this.#countOf(address) + 1);
    socket.once("close", () => this.#remove(connection));
    return true;
  }

  #countOf(address: string): number {
    return this.#ofAddress.get(address) ?? 0;
  }

  /** @param address - restricts the candidates to its connections */
  #makeRoom(address?: string): boolean {
    let idle: Connection | undefined;
    for (const connection of this.#open) {
      if (address !== undefined && connection.address !== address) continue;
      const state = connection.state();
      if (state === "asks") return this.#end(connection);
      if (state === "idle") idle ??= connection;
    }
    return idle !== undefined && this.#end(idle);
  }

  #end(connection: Connection): true {
    this.#remove(connection); // at once: its socket emits "close" in a later turn only
    connection.socket.destroy();
    return true;
  }

  #remove(connection: Connection): void {
    if (!this.#open.delete(connection)) return;
    const left = this.#countOf(connection.address) - 1;
    if (left > 0) this.#ofAddress.set(connection.address, left);
    else this.#ofAddress.delete(connection.address);
  }
}

/** Identifies a client's socket, also the one below TLS or HTTP/2. */
export const clientOf = ({ remoteAddress, remotePort }: Pick<Socket, "remoteAddress" | "remotePort">): string =>
  `${remoteAddress} ${remotePort}`;

/**
 * Limits by the constants, and by the files that the process may open. Without a free file no connection is accepted,
 * and nothing else works either.
 */
export function limitsOfProcess(filesMax: number = openFilesMax()): ConnectionLimits {
  const all = Math.max(8, Math.min(CONNECTIONS_MAX, Math.floor((filesMax - OTHER_FILES) / SERVERS)));
  return { all, ofAddress: Math.min(ADDRESS_CONNECTIONS_MAX, Math.ceil(all / 2)) };
}

/** Limit on open files; Infinity where the system doesn't tell. */
function openFilesMax(): number {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "latin1")) ?? [];
    return soft === undefined ? Infinity : Number(soft);
  } catch {
    return Infinity;
  }
}

/** Network of an address: for IPv6 its /64 prefix. A client that holds one address holds the other 2^64 too. */
export function networkOf(address: string): string {
  if (address.startsWith("::ffff:")) return address.slice("::ffff:".length);
  if (!address.includes(":")) return address;
  const [head = "", tail = ""] = address.split("::");
  const [first, last] = [head.split(":"), tail.split(":")];
  const zeros = address.includes("::") ? Array<string>(Math.max(0, 8 - first.length - last.length)).fill("0") : [];
  return [...first, ...zeros, ...last].slice(0, 4).join(":");
}
