import { generateKeyPairSync, randomBytes } from "node:crypto";
import { chmodSync, mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import type { HostBus, LinkSwitch } from "@tutti/bus";
import type { Heartbeat, LinkAddress } from "@tutti/protocol";
import { type LinkIdentity, LinkListener, type LinkPurpose, connectLink } from "@tutti/pull-tcp";
import { processLives } from "./process-lives.ts";

/** Processes of one host that are known at once. */
const PEERS_MAX = 1_024;
const PURPOSES: readonly LinkPurpose[] = ["control", "bulk"];
const RETRY_MS = 1_000;
/** Where the folder of the sockets is; a path of a Unix socket has 107 bytes at most. */
export const LINKS_VARIABLE = "TUTTI_LINKS";

interface Peer {
  address: LinkAddress;
  readonly links: Map<LinkPurpose, LinkSwitch>;
  readonly connecting: Set<LinkPurpose>;
  retryAt: number;
}

export interface HostLinksOptions {
  readonly buses: Readonly<Record<LinkPurpose, HostBus>>;
  readonly onFault: (text: string) => void;
}

/**
 * The links of this process with the others of its host: made with every process that an actor here hears of, whichever of the two hears first.
 * Where both offer one at a time, the offer of the process with the greater id counts.
 */
export class HostLinks {
  readonly own: LinkAddress;
  readonly #identity: LinkIdentity;
  readonly #options: HostLinksOptions;
  readonly #listener: LinkListener;
  readonly #peers = new Map<string, Peer>();

  private constructor(options: HostLinksOptions, path: string, id: string) {
    this.#options = options;
    const { privateKey, publicKey } = generateKeyPairSync("ed25519");
    this.#identity = { id, privateKey };
    this.own = { process: id, path, publicKey: publicKey.export({ format: "der", type: "spki" }).toString("base64") };
    this.#listener = new LinkListener({
      path,
      identity: this.#identity,
      publicKeyOf: (process) => this.#peers.get(process)?.address.publicKey,
      wants: (process, purpose) => this.#wants(process, purpose),
      onLink: (process, purpose, end) => this.#begin(process, purpose, end),
    });
  }

  /** @returns undefined where no socket can be made: everything then goes by the server */
  static async open(options: HostLinksOptions): Promise<HostLinks | undefined> {
    const id = randomBytes(9).toString("hex");
    try {
      const folder = linksFolder();
      const links = new HostLinks(options, join(folder, `${process.pid}-${id}.sock`), id);
      await links.#listener.ready();
      process.once("exit", () => rmSync(links.own.path, { force: true }));
      return links;
    } catch (error) {
      options.onFault(`no links with other processes of this host: ${(error as Error).message}`);
      return undefined;
    }
  }

  /** An actor of this host was heard. */
  hear({ link }: Heartbeat): void {
    if (link === undefined || link.process === this.#identity.id) return;
    let peer = this.#peers.get(link.process);
    if (peer === undefined) {
      if (this.#peers.size >= PEERS_MAX) this.#forgetIdle();
      peer = { address: link, links: new Map(), connecting: new Set(), retryAt: 0 };
      this.#peers.set(link.process, peer);
    } else if (peer.links.size === PURPOSES.length) return;
    for (const purpose of PURPOSES) this.#offer(peer, purpose);
  }

  close(): void {
    for (const peer of this.#peers.values()) for (const link of peer.links.values()) link.close();
    this.#listener.close();
    rmSync(this.own.path, { force: true });
  }

  #wants(process: string, purpose: LinkPurpose): boolean {
    const peer = this.#peers.get(process);
    if (peer === undefined || peer.links.has(purpose)) return false;
    return !peer.connecting.has(purpose) || process > this.#identity.id;
  }

  #offer(peer: Peer, purpose: LinkPurpose): void {
    const { process, path } = peer.address;
    const now = performance.now();
    if (peer.links.has(purpose) || peer.connecting.has(purpose) || now < peer.retryAt) return;
    peer.connecting.add(purpose);
    connectLink({
      ...{ path, purpose, peer: process, identity: this.#identity },
      publicKeyOf: () => peer.address.publicKey,
      onLink: (_, __, end) => {
        peer.connecting.delete(purpose);
        if (peer.links.has(purpose)) end.close();
        else this.#begin(process, purpose, end);
      },
      onFailed: () => {
        peer.connecting.delete(purpose);
        peer.retryAt = performance.now() + RETRY_MS;
      },
    });
  }

  #begin(process: string, purpose: LinkPurpose, end: Parameters<HostBus["link"]>[0]): void {
    const peer = this.#peers.get(process);
    if (peer === undefined) return end.close();
    const link = this.#options.buses[purpose].link({
      ...end,
      open: (handlers) =>
        end.open({
          onMessage: (message) => handlers.onMessage(message),
          onClosed: () => {
            if (peer.links.get(purpose) === link) peer.links.delete(purpose);
            handlers.onClosed();
          },
        }),
    });
    peer.links.set(purpose, link);
  }

  #forgetIdle(): void {
    for (const [process, { links, connecting }] of this.#peers)
      if (links.size + connecting.size === 0) this.#peers.delete(process);
  }
}

/** A folder that only this user can enter (UNIX-2), without the sockets of processes that have ended. */
function linksFolder(): string {
  const folder = process.env[LINKS_VARIABLE] ?? join(tmpdir(), `tutti-${userInfo().uid}`, "links");
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const { uid, mode } = statSync(folder);
  if (uid !== userInfo().uid) throw new Error(`${folder} belongs to another user`);
  if ((mode & 0o077) !== 0) chmodSync(folder, 0o700);
  for (const name of readdirSync(folder)) {
    const pid = Number(/^(\d+)-/.exec(name)?.[1]);
    if (processLives(pid) === false) rmSync(join(folder, name), { force: true });
  }
  return folder;
}
