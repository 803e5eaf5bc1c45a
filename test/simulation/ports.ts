/** Ports of the simulated actors: production's ports, stopped and killed with their process, and watched. */
import type { Bus, Delivery, InMemoryBus, ServiceInfo } from "@tutti/ports/bus";
import type { BatchDispatched, PulledItem } from "@tutti/protocol";
import type { DataClient, DataHandlers } from "@tutti/ports/pull";
import type { Store } from "@tutti/ports/store";
import type { ActorKey } from "@tutti/units";
import type { Channel } from "./link.ts";
import type { Incarnation, Process } from "./process.ts";

/** Watches an actor's ports. */
export interface PortWatcher {
  /** Value of the `Sent-As` header, by which a received message is recognised. */
  tagOf(actor: Incarnation, channel: Channel): string;
  /** @param isKept - whether it carries a reply subject, as answers do that their ingress keeps until they have left */
  onSent(actor: Incarnation, subject: string, payload: Uint8Array, taken: boolean, isKept: boolean): void;
  onReceived(actor: Incarnation, channel: Channel, delivery: Delivery): void;
  /** The actor's store shows it an entry. */
  onEntry(actor: Incarnation, bucket: string, key: string, revision: number): void;
  /** An executor asks for the inputs of an accepted batch, or looks at those that came with it. */
  onPull(actor: Incarnation, pull: Pull): void;
}

/** A connection of a process. */
export function connectionOf(inner: InMemoryBus, process: Process): Bus {
  const come = (run: () => void): void => process.perform(run);
  return {
    get payloadMax() {
      return inner.payloadMax;
    },
    get connected() {
      return inner.connected;
    },
    publish: (subject, payload, options) => process.alive && inner.publish(subject, payload, options),
    subscribe: (pattern, onDelivery, options) => {
      const subscription = inner.subscribe(pattern, (delivery) => come(() => onDelivery(delivery)), options);
      return { stop: () => subscription.stop(), drain: (done) => subscription.drain(() => come(done)) };
    },
    request: (subject, payload, options, done) =>
      process.alive && inner.request(subject, payload, options, (result) => come(() => done(result))),
    newInbox: () => inner.newInbox(),
    flush: (done) => inner.flush((reached) => come(() => done(reached))),
    onStatus: (listener) => inner.onStatus((status) => come(() => listener(status))),
    announce: (service) => inner.announce(service),
    close: (done) => inner.close(() => come(done)),
  };
}

/** Header of every message between actors. */
export const SENT_AS = "Sent-As";

/** An actor's view of the bus of its process. */
export function watchedBus(inner: Bus, channel: Channel, actor: Incarnation, watcher: PortWatcher): Bus {
  const come = (run: () => void): void => actor.perform(run);
  return {
    get payloadMax() {
      return inner.payloadMax;
    },
    get connected() {
      return inner.connected;
    },
    publish: (subject, payload, options) => {
      if (!actor.alive) return false;
      // Lost messages count too: to checkers, an actor has done what it tried to do.
      watcher.onSent(actor, subject, payload, inner.connected, options?.reply !== undefined);
      const headers = { ...options?.headers, [SENT_AS]: watcher.tagOf(actor, channel) };
      return inner.publish(subject, payload, { ...options, headers });
    },
    subscribe: (pattern, onDelivery, options) => {
      const hear = (delivery: Delivery): void =>
        come(() => {
          watcher.onReceived(actor, channel, delivery);
          onDelivery(delivery);
        });
      const subscription = inner.subscribe(pattern, hear, options);
      return { stop: () => subscription.stop(), drain: (done) => subscription.drain(() => come(done)) };
    },
    request: (subject, payload, options, done) =>
      actor.alive && inner.request(subject, payload, options, (result) => come(() => done(result))),
    isNear: (subject) => inner.isNear?.(subject) === true,
    newInbox: () => inner.newInbox(),
    flush: (done) => inner.flush((reached) => come(() => done(reached))),
    onStatus: (listener) => inner.onStatus((status) => come(() => listener(status))),
    announce: (service: ServiceInfo) => {
      actor.figures = () => service.stats();
      return { stop: () => undefined };
    },
    close: (done) => inner.close(() => come(done)),
  };
}

/** The way of an actor's calls to the store, and of the store's answers to the actor. */
export interface StoreLink {
  /** False while the process can't reach the store. */
  reachable(): boolean;
  /** Carries an answer or a watch's entry over, in order. */
  carry(run: () => void): void;
}

/**
 * The store as an actor sees it. A call that does not get there fails; entries that a watch misses are shown later, as
 * by a client that reconnects.
 */
export function actorStore(store: Store, actor: Incarnation, watcher: PortWatcher, link: StoreLink): Store {
  const come = (run: () => void): void => link.carry(() => actor.perform(run));
  const call = <T>(done: (result: T | { failure: string }) => void, perform: (answer: (result: T) => void) => void) => {
    if (!actor.alive) return;
    if (link.reachable()) perform((result) => come(() => done(result)));
    else come(() => done({ failure: "the store is out of reach" }));
  };
  return {
    get: (bucket, key, done) => call(done, (answer) => store.get(bucket, key, answer)),
    put: (bucket, key, value, done) => call(done, (answer) => store.put(bucket, key, value, answer)),
    update: (bucket, key, value, revision, done) =>
      call(done, (answer) => store.update(bucket, key, value, revision, answer)),
    delete: (bucket, key, done) => call(done, (answer) => store.delete(bucket, key, answer)),
    watch: (bucket, prefix, onward) => {
      let stopped = false;
      const show = (run: () => void): void => come(() => !stopped && run());
      const watch = store.watch(bucket, prefix, {
        onEntry: (entry) =>
          show(() => {
            watcher.onEntry(actor, bucket, entry.key, entry.revision);
            onward.onEntry(entry);
          }),
        onDelete: (key, revision) => show(() => onward.onDelete(key, revision)),
        onReady: () => show(() => onward.onReady()),
        onFailure: (failure) => show(() => onward.onFailure(failure)),
      });
      return {
        stop: () => {
          stopped = true;
          watch.stop();
        },
      };
    },
    files: store.files,
  };
}

export type Pull = Parameters<DataClient["pull"]>[1];

export function watchedDataClient(inner: DataClient, actor: Incarnation, watcher: PortWatcher): DataClient {
  return {
    pull: (peer, pull, timeoutMs, done) => {
      if (!actor.alive) return;
      watcher.onPull(actor, pull);
      inner.pull(peer, pull, timeoutMs, (outcome) => actor.perform(() => done(outcome)));
    },
    push: (peer, results) => actor.alive && inner.push(peer, results),
    onBatch: (listener) =>
      inner.onBatch?.((batch, batcher, items) => {
        const rows = noticed(items, () => watcher.onPull(actor, pullOf(batch, batcher)));
        actor.perform(() => listener(batch, batcher, rows));
      }),
    forget: (key) => inner.forget(key),
    close: (done) => inner.close(() => actor.perform(done)),
  };
}

/**
 * Calls `onLook` at the first access to the rows that came with a batch. An executor reads them once it has accepted
 * it.
 */
function noticed(items: readonly PulledItem[], onLook: () => void): readonly PulledItem[] {
  let isNew = true;
  return new Proxy(items, {
    get: (target, name) => {
      if (isNew) onLook();
      isNew = false;
      return Reflect.get(target, name) as unknown;
    },
  });
}

/** The pull that would have fetched the rows that came with a batch. */
function pullOf({ executor, gpu, thread, batchId, ingresses, requests }: BatchDispatched, batcher: ActorKey): Pull {
  const seqs = requests.map(({ seq }) => seq);
  return { executor, gpu, thread, batchId, batcher, token: ingresses[0]!.token, seqs };
}

/** Data handlers that act only while the process runs. The caller copies rows, so they may wait while it is stopped. */
export function actorDataHandlers(handlers: DataHandlers, actor: Incarnation): DataHandlers {
  return {
    onPull: (pull, reply) => actor.perform(() => handlers.onPull(pull, reply)),
    onResults: (results) => actor.perform(() => handlers.onResults(results)),
  };
}
