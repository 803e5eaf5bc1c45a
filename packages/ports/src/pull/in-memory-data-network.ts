import type { PulledItem, PullRequest, ResultBatch } from "@tutti/protocol";
import { type ActorKey, type Micros, assert, micros } from "@tutti/units";
import { PendingPulls, type Timer } from "./pending-pulls.ts";
import type { DataClient, DataHandlers, DataPeer, DataServer, PullOutcome } from "./pull.ts";

/** One message of the data plane on its way. */
export interface DataHop {
  readonly kind: "pull" | "reply" | "results";
  readonly from: ActorKey;
  readonly to: ActorKey;
  /** Bytes of the rows or outputs; 0 for a pull. */
  readonly bytes: number;
}

export interface InMemoryDataNetworkOptions {
  /**
   * Runs a callback later: a virtual clock's alarm in simulations. Equal delays must run in the order of their calls.
   */
  readonly schedule: (delay: Micros, run: () => void) => Timer;
  /** Fate of a message: its delay, or "lost". Default: no delay. */
  readonly carry?: (hop: DataHop) => Micros | "lost";
}

/**
 * The data plane within one process, for tests and the simulator. It is deterministic, since it decides nothing by
 * itself. Data that the port's rules call borrowed is copied on the way, as over a wire.
 */
export class InMemoryDataNetwork {
  readonly #options: InMemoryDataNetworkOptions;
  readonly #servers = new Map<ActorKey, Served>();

  constructor(options: InMemoryDataNetworkOptions) {
    this.#options = options;
  }

  serve(key: ActorKey, handlers: DataHandlers): DataServer {
    assert(!this.#servers.has(key), `ingress ${key} is served already`);
    const served: Served = { handlers, onClose: new Set() };
    this.#servers.set(key, served);
    return {
      address: undefined,
      close: (done) => {
        if (this.#servers.get(key) === served) this.#servers.delete(key);
        // Tell its clients at once, as when a connection breaks.
        for (const notice of served.onClose) this.schedule(micros(0), notice);
        served.onClose.clear();
        this.schedule(micros(0), done);
      },
    };
  }

  connect(key: ActorKey): DataClient {
    return new InMemoryDataClient(this, key);
  }

  serverOf(key: ActorKey): Served | undefined {
    return this.#servers.get(key);
  }

  schedule(delay: Micros, run: () => void): Timer {
    return this.#options.schedule(delay, run);
  }

  send(hop: DataHop, arrive: () => void): void {
    const fate = this.#options.carry?.(hop) ?? micros(0);
    if (fate !== "lost") this.schedule(fate, arrive);
  }
}

interface Served {
  readonly handlers: DataHandlers;
  readonly onClose: Set<() => void>;
}

class InMemoryDataClient implements DataClient {
  readonly #network: InMemoryDataNetwork;
  readonly #key: ActorKey;
  readonly #pulls: PendingPulls;
  readonly #notices = new Map<ActorKey, { readonly served: Served; readonly notice: () => void }>();

  constructor(network: InMemoryDataNetwork, key: ActorKey) {
    this.#network = network;
    this.#key = key;
    this.#pulls = new PendingPulls((delayMs, run) => network.schedule(micros(Math.ceil(delayMs * 1_000)), run));
  }

  pull(peer: DataPeer, pull: PullRequest, timeoutMs: number, done: (outcome: PullOutcome) => void): void {
    const correlation = this.#pulls.open(peer.key, pull.seqs, timeoutMs, done);
    if (correlation === undefined) {
      this.#network.schedule(micros(0), () => done({ failure: "unreachable" }));
      return;
    }
    const sent = { ...pull, seqs: [...pull.seqs], token: new Uint8Array(pull.token) };
    this.#network.send({ kind: "pull", from: this.#key, to: peer.key, bytes: 0 }, () => {
      const served = this.#network.serverOf(peer.key);
      if (served === undefined) return this.#pulls.fail(correlation, "unreachable");
      this.#watch(peer.key, served);
      let replied = false;
      served.handlers.onPull(sent, (items) => {
        if (replied) return;
        replied = true;
        this.#reply(peer.key, correlation, items);
      });
    });
  }

  #reply(peer: ActorKey, correlation: number, items: readonly PulledItem[] | undefined): void {
    const copies = (items ?? []).map((item) => ({ ...item, row: item.row && new Uint8Array(item.row) }));
    const bytes = copies.reduce((sum, { row }) => sum + (row?.byteLength ?? 0), 0);
    const reply = {
      kind: "reply",
      correlation,
      forbidden: items === undefined,
      first: 0,
      total: copies.length,
    } as const;
    this.#network.send({ kind: "reply", from: peer, to: this.#key, bytes }, () => {
      if (this.#pulls.has(correlation)) this.#pulls.onReply(peer, { ...reply, items: copies });
    });
  }

  /** Makes the pulls that wait for a server fail when the server closes. */
  #watch(peer: ActorKey, served: Served): void {
    if (this.#notices.get(peer)?.served === served) return;
    const notice = (): void => {
      this.#notices.delete(peer);
      this.#pulls.failPeer(peer, "unreachable");
    };
    this.#notices.set(peer, { served, notice });
    served.onClose.add(notice);
  }

  push(peer: DataPeer, results: ResultBatch): void {
    if (this.#pulls.isClosed) return;
    const items = results.items.map((item) => ({ ...item, outputs: item.outputs && new Uint8Array(item.outputs) }));
    const bytes = items.reduce((sum, { outputs }) => sum + (outputs?.byteLength ?? 0), 0);
    const copy = { ...results, token: new Uint8Array(results.token), items };
    this.#network.send({ kind: "results", from: this.#key, to: peer.key, bytes }, () =>
      this.#network.serverOf(peer.key)?.handlers.onResults(copy),
    );
  }

  forget(key: ActorKey): void {
    this.#pulls.failPeer(key, "unreachable");
    this.#unwatch(key);
  }

  close(done: () => void): void {
    this.#pulls.close();
    for (const key of [...this.#notices.keys()]) this.#unwatch(key);
    this.#network.schedule(micros(0), done);
  }

  #unwatch(key: ActorKey): void {
    const watched = this.#notices.get(key);
    if (watched === undefined) return;
    watched.served.onClose.delete(watched.notice);
    this.#notices.delete(key);
  }
}
