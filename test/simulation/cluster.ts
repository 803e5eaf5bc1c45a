import type { InMemoryBus } from "@tutti/ports/bus";
import { VirtualClock } from "@tutti/ports/clock";
import { BUCKET, HEADER, PLACEMENT_KEY, type Placement, cancelSubject, inferSubject } from "@tutti/protocol";
import { routeKeys, splitModelName, withPercent } from "@tutti/protocol";
import { type Entry, isStoreFailure } from "@tutti/ports/store";
import { type ActorKey, type Micros, Prng, actorKey, gpuId, micros, millis } from "@tutti/units";
import { toJson } from "@tutti/wire";
import { ActorCluster } from "../fixtures/actor-cluster/actor-cluster.ts";
import { echoModel, echoRequest, readEcho } from "../fixtures/actor-cluster/echo-model.ts";
import type { Process } from "../fixtures/actor-cluster/process.ts";
import { clockOf } from "./clocks.ts";
import { EngineFaults, createActor, logsTo } from "./actors.ts";
import type { Checkers } from "./checkers.ts";
import { loadedOf, withVariants } from "./families.ts";
import { HostLinks } from "./host-links.ts";
import { type Kind, PLAIN } from "./kinds.ts";
import { Links } from "./links.ts";
import type { Parts } from "./parts.ts";
import type { Placing } from "./placements.ts";
import { PLANNED_PAUSE_MAX, coldStartMax } from "./planners.ts";
import type { ModelPlan, Plan } from "./plan.ts";
import { latencyOf } from "./unlike-executors.ts";
import type { Asked, Watcher } from "./watcher.ts";

const PUBLISHERS = 2;
/** The application that asks. */
const APP = "test";
/** Most timers that fire at one instant: a simulation with more never ends. */
const FIRES_MAX = 100_000;

/** A cluster that a plan groups in processes and on hosts, and whose links, store and accelerators it makes fail. */
export class Cluster extends ActorCluster {
  readonly links: Links;
  readonly hostLinks: HostLinks;
  readonly engines: EngineFaults;
  readonly asked: Asked[] = [];
  /** Undefined: no executor is ever divided. */
  parts: Parts | undefined;
  /** While true, no client can connect to the NATS server. */
  serverAway = false;
  readonly #plan: Plan;
  readonly #watcher: Watcher;
  readonly #prng: Prng;
  readonly #processOfKey = new Map<ActorKey, string>();
  readonly #publishers: InMemoryBus[];
  readonly #stranger: InMemoryBus;
  /** Store events for processes that are cut off from it, to be delivered later. */
  readonly #held: { readonly process: Process; readonly run: () => void }[] = [];

  constructor(plan: Plan, watcher: Watcher) {
    const { seed, skewUsMax, timeouts } = plan;
    const prng = new Prng(seed * 31 + 7);
    const links = new Links(plan, prng.fork());
    const hostLinks = new HostLinks({
      faults: plan.grouping.links,
      faulty: false,
      prng: prng.fork(),
      now: () => this.now,
      later: (delayUs, run) => this.later(delayUs, run),
      onDelivered: (hop) => watcher.onDelivered(hop),
    });
    super({
      ...{ prng, watcher, timeouts, announces: false },
      clock: new VirtualClock({ firesMax: FIRES_MAX }),
      links: hostLinks,
      lives: (host, pid) => this.processes.some(({ process }) => process.host === host && process.pid === pid),
      telemetry: (actor) => logsTo((level, fields, text) => watcher.onLogged(actor, level, fields, text)),
      nextSkew: () => clockOf(plan, skewUsMax === 0 ? 0 : prng.nextInt(2 * skewUsMax + 1) - skewUsMax),
      nextKey: () => actorKey(1 + prng.nextUint32() * 4_096 + prng.nextInt(4_096)),
      // No message between publishers and the system is lost or repeated: it would be another request, or none.
      fates: (hop) => {
        const [from, to] = [processOfConnection(hop.from), processOfConnection(hop.to)];
        return from === undefined || to === undefined ? [plan.hopUs] : links.fates(from, to);
      },
      dataFate: ({ from, to }) => {
        const [delay] = links.fates(this.#processOfKey.get(from) ?? "?", this.#processOfKey.get(to) ?? "?");
        return delay === undefined ? "lost" : micros(delay);
      },
      storeLink: (process) => ({
        reachable: () => !links.isCut(process.name, "store"),
        carry: (run) => this.#carryFromStore(process, run),
      }),
    });
    this.#plan = plan;
    this.#watcher = watcher;
    this.#prng = prng;
    this.links = links;
    this.hostLinks = hostLinks;
    this.engines = new EngineFaults(plan, prng.fork());
    this.#publishers = Array.from({ length: PUBLISHERS }, (_, i) => this.network.connect({ name: `publisher-${i}` }));
    this.#stranger = this.network.connect({ name: "stranger" });
  }

  /** Starts all processes. */
  open(): void {
    if (this.#plan.placings !== undefined) this.place(this.#plan.placings.first);
    for (const slot of this.#firstSlots) this.start(slot);
    for (const loaded of loadedOf(this.#plan)) {
      const { model, number } = loaded;
      const latency = (batchSize: number): Micros => latencyOf(model, batchSize, 1);
      const { name, batchSizeMax, sloMs } = model;
      // Longer than any run that a plan slows down.
      const runDeadline = micros(Math.ceil(4 * latency(batchSizeMax) * (this.#plan.slow?.factor ?? 1)));
      const { version = "1" } = splitModelName(name);
      const echo = echoModel({ name, number, slo: millis(sloMs), batchSizeMax, latency });
      // A latency that a model says is that of every type that it is loaded on.
      const { profile, ...unmeasured } = echo;
      const measured = this.#plan.slow === undefined ? { ...unmeasured, profile: profile! } : unmeasured;
      const scaleToZero = this.#plan.planned?.scaleToZero[number - 1];
      const parking = scaleToZero !== undefined && { scaleToZero };
      const { memory } = this.#plan;
      const bounded = memory !== undefined && { memory: memory.models[number - 1]! };
      const spec = withVariants({ ...measured, version, runDeadline, ...parking, ...bounded }, loaded);
      this.store.put(BUCKET.models, name, toJson(spec), () => undefined);
    }
  }

  /** All slots that ever run. Joiners, which are not there from the beginning, come last. */
  get slots(): string[] {
    return this.#plan.grouping.processes.flatMap(({ slots }) => slots);
  }
  get #firstSlots(): string[] {
    return this.slots.filter((slot) => !this.#plan.joiners.includes(slot));
  }
  /** The name of the process that a slot's actor lives in. */
  processOf(slot: string): string {
    return this.#plan.grouping.processes.find(({ slots }) => slots.includes(slot))?.name ?? slot;
  }
  /** Starts a slot's actor, with all actors of the same process. */
  start(slot: string): void {
    if (this.running.has(slot) || this.parts?.isAway(slot) === true) return;
    // The process waits for the server.
    if (this.serverAway) return this.later(5_000, () => this.start(slot));
    const plan = this.#plan.grouping.processes.find(({ slots }) => slots.includes(slot))!;
    const makers = { plan: this.#plan, watcher: this.#watcher, engines: this.engines, parts: this.parts };
    this.startProcess(plan, (made) => {
      this.#processOfKey.set(made.config.key, plan.name);
      return createActor(makers, made, () => this.#restart(plan.slots));
    });
  }

  override kill(slot: string): void {
    super.kill(slot);
    this.parts?.ended(slot);
  }

  /** Ends a process whose engine is unusable, and starts it again. */
  #restart([slot]: readonly string[]): void {
    this.kill(slot!);
    this.later(20_000, () => this.start(slot!));
  }

  /** Delivers held-back store events to processes that are no longer cut off from the store. */
  showHeld(): void {
    for (const { process, run } of this.#held.splice(0)) this.#carryFromStore(process, run);
  }

  disconnectPublishers(): void {
    for (const publisher of this.#publishers) publisher.disconnect("unconfirmed");
  }
  reconnectPublishers(): void {
    for (const publisher of this.#publishers) publisher.reconnect();
    this.#watcher.onPublishersBack();
  }

  /** Writes a placement as the planner does, which tries again while the store is away. */
  place({ models, executors }: Placing): void {
    const { gpusPerExecutor } = this.#plan;
    const placement: Placement = {
      ...{ epoch: ++this.#placements, madeAt: this.now },
      models: models.flatMap((where, i) => {
        if (this.#plan.hasFamily === true && i === 1) return []; // It moves with the first one.
        const [subCluster = "", next] = where.split(">");
        return subCluster === "" ? [] : [{ number: i + 1, subCluster, ...(next !== undefined && { next }) }];
      }),
      gpus: executors.flatMap((subCluster, i) =>
        subCluster === ""
          ? []
          : Array.from({ length: gpusPerExecutor }, (_, j) => ({ gpu: gpuId(i * gpusPerExecutor + j), subCluster })),
      ),
    };
    // A later placement is never overwritten, as a planner's compare-and-set ensures.
    const write = (): void => {
      if (placement.epoch !== this.#placements) return;
      this.store.put(BUCKET.plan, PLACEMENT_KEY, toJson(placement), (result) => {
        if (isStoreFailure(result)) this.later(5_000, write);
      });
    };
    write();
  }
  #placements = 0;

  /** Sets a version's share as an operator does, who tries again while the store is away. */
  share(percent: number, isShadow: boolean): void {
    const share = ++this.#shares;
    const slices = isShadow ? [] : withPercent([], "2", percent)!;
    const shadow = isShadow ? { shadow: { version: "2", percent: 100 } } : {};
    const state = { at: this.now, by: "operator", why: "", default: "1", slices, ...shadow };
    const name = this.#plan.models[0]!.name;
    const write = (): void => {
      if (share !== this.#shares) return;
      this.store.put(BUCKET.plan, routeKeys.model(name), toJson({ name, states: [state] }), (result) => {
        if (isStoreFailure(result)) this.later(5_000, write);
      });
    };
    write();
  }
  #shares = 0;

  /** A random whole number below `max`. */
  draw(max: number): number {
    return this.#prng.nextInt(max);
  }

  ask(model: Pick<ModelPlan, "name">, sloMs: number, kind: Kind = PLAIN): Asked {
    const at = this.now;
    const publisher = this.#publishers[this.#prng.nextInt(PUBLISHERS)]!;
    const reply = publisher.newInbox();
    const slo = millis(kind.patience * sloMs);
    const id = this.asked.length + 1;
    const asked: Asked = {
      id,
      model: model.name,
      at,
      slo,
      kind,
      reply,
      outcomes: [],
      acceptedBy: undefined,
      acceptedAt: at,
      coldStart: micros(0),
    };
    this.asked.push(asked);
    this.#watcher.onAsked(asked);
    const inbox = publisher.subscribe(reply, (delivery) => {
      const outcome = { ...readEcho(delivery), at: this.now };
      asked.outcomes.push(outcome);
      this.#watcher.onOutcome(asked, outcome);
    });
    // An answer after this time is no repetition that the network made, and no process is stopped for so long: the
    // request is over.
    const longestPause = this.#plan.planned === undefined ? 0 : PLANNED_PAUSE_MAX;
    this.later(slo + coldStartMax(this.#plan) + longestPause + 10 * this.#plan.timeouts.actor.peerTimeout, () =>
      inbox.stop(),
    );
    const { payload, headers } = echoRequest(id, HEADER.costs in kind.headers ? millis(sloMs) : slo);
    publisher.publish(inferSubject(model.name, APP), payload, { reply, headers: { ...headers, ...kind.headers } });
    if (kind.cancelledAt !== undefined)
      this.later(Math.round(kind.cancelledAt * slo), () =>
        publisher.publish(cancelSubject(APP), new TextEncoder().encode(reply)),
      );
    return asked;
  }

  /** T8: no message of a stranger may stop an actor. */
  junk(): void {
    const bytes = Uint8Array.from({ length: this.#prng.nextInt(80) }, () => this.#prng.nextInt(256));
    const frame = Uint8Array.of(0x75, 0x74, 1, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, ...bytes);
    for (const { incarnation } of [...this.running.values()]) {
      const subject = `tutti.v1.main.to.${incarnation.key.toString(36)}`;
      for (const payload of [bytes, frame, frame.subarray(0, 20)]) this.#stranger.publish(subject, payload);
    }
    for (const role of ["ingress", "batcher", "ranker", "executor"])
      this.#stranger.publish(`tutti.v1.main.beat.${role}`, frame);
    this.#stranger.publish(inferSubject("model-0", "test"), bytes, { reply: "_INBOX.stranger.x" });
    this.#stranger.publish(inferSubject("nothing", "test"), bytes, { reply: "_INBOX.stranger.x" });
  }

  #carryFromStore(process: Process, run: () => void): void {
    if (this.links.isCut("store", process.name)) this.#held.push({ process, run });
    else this.later(this.#plan.hopUs, run);
  }
}

/** Process of a connection; undefined for a publisher's or a stranger's. */
function processOfConnection(name: string): string | undefined {
  const end = name.indexOf("#");
  return end < 0 ? undefined : name.slice(0, end);
}

/** Shows checkers leases and placements at the moments of their writes. */
export function watchStore({ store }: Cluster, checkers: Checkers): void {
  const watch = (bucket: string, key: string, onEntry: (entry: Entry) => void): void => {
    const nothing = (): void => undefined;
    store.watch(bucket, key, { onEntry, onDelete: nothing, onReady: nothing, onFailure: nothing });
  };
  watch(BUCKET.leases, "", ({ key, value, revision }) => checkers.leaseWritten(key, value, revision));
  watch(BUCKET.plan, PLACEMENT_KEY, ({ value, revision }) => checkers.placementWritten(value, revision));
}
