import { generateKeyPairSync, randomBytes } from "node:crypto";
import { chmodSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { CommandError } from "@tutti/admin";
import type { HostBus, LinkSwitch } from "@tutti/ports/bus";
import type { Heartbeat, LinkAddress } from "@tutti/protocol";
import { type LinkChannel, type LinkEnds, type LinkIdentity, LinkListener, connectLink } from "@tutti/pull-tcp";
import { makeOwnFolder, makeOwnNamedFolder, makeTemporaryFolder, temporaryFolder } from "./own-folder.ts";
import { processLives } from "./process-lives.ts";

/** Maximum number of known processes of the host. */
const PEERS_MAX = 1_024;
const RETRY_MS = 1_000;
/**
 * Environment variable for the folder of the sockets, or `off`: all messages go through NATS, where they can be
 * observed. A Unix socket's path has 107 bytes at most.
 */
export const LINKS_VARIABLE = "TUTTI_LINKS";

interface Peer {
  address: LinkAddress;
  /** The links of both channels; undefined: not connected. */
  links: readonly LinkSwitch[] | undefined;
  isConnecting: boolean;
  retryAt: number;
}

export interface HostLinksOptions {
  readonly buses: Readonly<Record<LinkChannel, HostBus>>;
  readonly onFault: (text: string) => void;
}

/**
 * The links of this process with the other processes of its host. The process that first hears a heartbeat of the
 * other's actor connects. If both connect at once, the connection from the process with the greater id counts.
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
      wants: (process) => this.#wants(process),
      onLink: (process, ends) => this.#begin(process, ends),
    });
  }

  /** @returns undefined: no socket can be made, or links are off, and all messages go through the server */
  static async open(options: HostLinksOptions): Promise<HostLinks | undefined> {
    if (process.env[LINKS_VARIABLE] === "off") return undefined;
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

  /** Handles a heartbeat of an actor on this host, and connects to its process. */
  hear({ link }: Heartbeat): void {
    if (link === undefined || link.process === this.#identity.id) return;
    let peer = this.#peers.get(link.process);
    if (peer === undefined) {
      if (this.#peers.size >= PEERS_MAX) this.#forgetIdle();
      peer = { address: link, links: undefined, isConnecting: false, retryAt: 0 };
      this.#peers.set(link.process, peer);
    }
    this.#offer(peer);
  }

  close(): void {
    for (const { links } of this.#peers.values()) for (const link of links ?? []) link.close();
    this.#listener.close();
    rmSync(this.own.path, { force: true });
  }

  #wants(process: string): boolean {
    const peer = this.#peers.get(process);
    if (peer === undefined || peer.links !== undefined) return false;
    return !peer.isConnecting || process > this.#identity.id;
  }

  #offer(peer: Peer): void {
    const { process, path } = peer.address;
    if (peer.links !== undefined || peer.isConnecting || performance.now() < peer.retryAt) return;
    peer.isConnecting = true;
    connectLink({
      ...{ path, peer: process, identity: this.#identity },
      publicKeyOf: () => peer.address.publicKey,
      onLink: (_, ends) => {
        peer.isConnecting = false;
        if (peer.links === undefined) this.#begin(process, ends);
        else ends.control.close();
      },
      onFailed: () => {
        peer.isConnecting = false;
        peer.retryAt = performance.now() + RETRY_MS;
      },
    });
  }

  #begin(process: string, { control, bulk }: LinkEnds): void {
    const peer = this.#peers.get(process);
    if (peer === undefined) return control.close();
    const { buses } = this.#options;
    const links = [
      buses.control.link(control, () => {
        if (peer.links === links) peer.links = undefined;
      }),
      buses.bulk.link(bulk),
    ];
    peer.links = links;
  }

  #forgetIdle(): void {
    for (const [process, { links, isConnecting }] of this.#peers)
      if (links === undefined && !isConnecting) this.#peers.delete(process);
  }
}

/** A folder that only this user can enter (UNIX-2), without the sockets of ended processes. */
function linksFolder(): string {
  const named = process.env[LINKS_VARIABLE];
  const folder = named ?? join(temporaryFolder(), "links");
  const { mode } = named === undefined ? makeDefaultFolder(folder) : makeOwnNamedFolder(LINKS_VARIABLE, named);
  if ((mode & 0o077) !== 0) chmodSync(folder, 0o700);
  for (const name of readdirSync(folder)) {
    const pid = Number(/^(\d+)-/.exec(name)?.[1]);
    if (processLives(pid) === false) rmSync(join(folder, name), { force: true });
  }
  return folder;
}

function makeDefaultFolder(folder: string): { readonly mode: number } {
  try {
    makeTemporaryFolder();
    return makeOwnFolder(folder);
  } catch (error) {
    throw new CommandError(`${(error as Error).message}; ${LINKS_VARIABLE} names another folder`, undefined, error);
  }
}
