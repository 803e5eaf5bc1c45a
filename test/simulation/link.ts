/**
 * A link between two processes of a simulated host. It delivers in order, is at times slow or full, and lasts until it
 * breaks or an end closes it.
 */
import type { LinkEnd, LinkHandlers, LinkMessage } from "@tutti/ports/bus";
import type { Prng } from "@tutti/units";
import type { Channel } from "../fixtures/actor-cluster/ports.ts";
import type { Process } from "../fixtures/actor-cluster/process.ts";
import type { LinkFaults } from "./groupings.ts";

/** State that all links of a cluster share. */
export interface LinkWorld {
  readonly faults: LinkFaults;
  /** Whether faults last. */
  faulty: boolean;
  readonly prng: Prng;
  readonly now: () => number;
  readonly later: (delayUs: number, run: () => void) => void;
  readonly onDelivered: (hop: { from: string; to: string; subject: string; bytes: number }) => void;
}

/** Delay of a small message between two processes of a host. */
export const LINK_HOP_US = 15;
/** Most time until both ends have noticed a break. */
const NOTICED_US_MAX = 1_000;

interface Side {
  readonly process: Process;
  readonly handlers: Map<Channel, LinkHandlers>;
  /** Messages that came before their channel was opened. */
  readonly early: { readonly channel: Channel; readonly message: LinkMessage }[];
  isOpen: boolean;
  /** When the last message that was sent to it arrives. */
  arrivesAt: number;
}

export class Link {
  readonly #id: string;
  readonly #world: LinkWorld;
  readonly #sides: readonly Side[];
  #isBroken = false;

  constructor(id: string, processes: readonly [Process, Process], world: LinkWorld) {
    this.#id = id;
    this.#world = world;
    this.#sides = processes.map((process) => ({
      ...{ process, handlers: new Map<Channel, LinkHandlers>(), early: [], isOpen: true, arrivesAt: 0 },
    }));
  }

  endOf(process: Process, channel: Channel): LinkEnd {
    const [own, peer] = this.#from(process);
    return {
      id: this.#id,
      send: (message) => this.#send({ own, peer }, channel, message),
      open: (handlers) => {
        own.handlers.set(channel, handlers);
        const early = own.early.filter((one) => one.channel === channel);
        for (const { message } of early) handlers.onMessage(message);
        if (!own.isOpen) handlers.onClosed();
      },
      close: () => this.close(process),
    };
  }

  /** Closes one end; messages that it has sent still arrive. */
  close(process: Process): void {
    const [own, peer] = this.#from(process);
    if (!own.isOpen || this.#isBroken) return;
    own.isOpen = false;
    this.#world.later(LINK_HOP_US, () => this.#end(own));
    this.#arrive(peer, () => this.#end(peer));
  }

  /** Breaks the link; messages on their way are lost. */
  break(): void {
    if (this.#isBroken) return;
    this.#isBroken = true;
    for (const side of this.#sides) this.#world.later(this.#world.prng.nextInt(NOTICED_US_MAX), () => this.#end(side));
  }

  #from(process: Process): [Side, Side] {
    const [first, second] = this.#sides as [Side, Side];
    return first.process === process ? [first, second] : [second, first];
  }

  #send({ own, peer }: { own: Side; peer: Side }, channel: Channel, message: LinkMessage): boolean {
    const { faulty, faults, prng, onDelivered } = this.#world;
    if (!own.isOpen || this.#isBroken) return false;
    if (faulty && faults.full > 0 && prng.nextFloat() < faults.full) return false;
    const sent = message.kind === "message" ? { ...message, payload: new Uint8Array(message.payload) } : message;
    const isLate = faulty && faults.late > 0 && prng.nextFloat() < faults.late;
    this.#arrive(
      peer,
      () => {
        if (!peer.isOpen) return;
        const subject = sent.kind === "message" ? sent.subject : sent.kind;
        const bytes = sent.kind === "message" ? sent.payload.byteLength : 0;
        onDelivered({ from: own.process.name, to: peer.process.name, subject, bytes });
        const handlers = peer.handlers.get(channel);
        if (handlers === undefined) peer.early.push({ channel, message: sent });
        else handlers.onMessage(sent);
      },
      isLate ? prng.nextInt(faults.lateUsMax) : 0,
    );
    return true;
  }

  /** Delivers after all earlier messages. */
  #arrive(to: Side, run: () => void, lateUs = 0): void {
    const { now, later } = this.#world;
    to.arrivesAt = Math.max(to.arrivesAt, now() + LINK_HOP_US + lateUs);
    later(to.arrivesAt - now(), () => {
      if (!this.#isBroken) to.process.perform(run);
    });
  }

  #end(side: Side): void {
    side.process.perform(() => {
      side.isOpen = false;
      for (const handlers of side.handlers.values()) handlers.onClosed();
    });
  }
}
