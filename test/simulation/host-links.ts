/**
 * Links between processes of a host, as in packages/cli. Each process connects to every process of its host that it
 * hears of, and again once a link has broken.
 */
import type { HostBus } from "@tutti/ports/bus";
import type { Heartbeat, LinkAddress } from "@tutti/protocol";
import type { Channel } from "../fixtures/actor-cluster/ports.ts";
import type { Process } from "../fixtures/actor-cluster/process.ts";
import type { ProcessLinks } from "../fixtures/actor-cluster/processes.ts";
import { LINK_HOP_US, Link, type LinkWorld } from "./link.ts";

const HANDSHAKE_US = 300;
const CHANNELS: readonly Channel[] = ["control", "bulk"];

interface Linked {
  readonly process: Process;
  readonly buses: Readonly<Record<Channel, HostBus>>;
  /** Processes whose heartbeats it has heard: only they may connect. */
  readonly known: Set<Linked>;
  readonly links: Map<Linked, Link>;
}

export class HostLinks implements ProcessLinks {
  readonly world: LinkWorld;
  readonly #linked = new Map<string, Linked>();
  #count = 0;

  constructor(world: LinkWorld) {
    this.world = world;
  }

  /** @returns the ports for actors of the process */
  join(process: Process, buses: Linked["buses"]): { readonly own: LinkAddress; hear(beat: Heartbeat): void } {
    const id = idOf(process);
    const own: Linked = { process, buses, known: new Set(), links: new Map() };
    this.#linked.set(id, own);
    return {
      own: { process: id, path: `/links/${id}`, publicKey: id },
      hear: ({ link }) => {
        const peer = link === undefined ? undefined : this.#linked.get(link.process);
        if (peer !== undefined && peer !== own) this.#meet(own, peer);
      },
    };
  }

  breakLinks(process: Process): void {
    for (const link of this.#linksOf(process)) link.break();
  }
  leave(process: Process): void {
    for (const link of this.#linksOf(process)) link.close(process);
    this.#linked.delete(idOf(process));
  }
  #linksOf(process: Process): Link[] {
    return [...(this.#linked.get(idOf(process))?.links.values() ?? [])];
  }

  #meet(own: Linked, peer: Linked): void {
    own.known.add(peer);
    const answers = peer.known.has(own) && !peer.process.paused;
    if (!answers || own.links.has(peer) || peer.links.has(own)) return;
    const id = `${own.process.name}~${peer.process.name}~${++this.#count}`;
    const link = new Link(id, [own.process, peer.process], this.world);
    own.links.set(peer, link);
    peer.links.set(own, link);
    // The listening end learns first that the link is established, and the other end a moment later.
    this.world.later(HANDSHAKE_US, () => begin(peer, own, link));
    this.world.later(HANDSHAKE_US + LINK_HOP_US, () => begin(own, peer, link));
  }
}

const begin = (own: Linked, peer: Linked, link: Link): void =>
  own.process.perform(() => {
    for (const channel of CHANNELS)
      own.buses[channel].link(
        link.endOf(own.process, channel),
        () => own.links.get(peer) === link && own.links.delete(peer),
      );
  });

const idOf = ({ name, pid }: Process): string => `${name}-${pid}`;
