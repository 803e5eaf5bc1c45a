import { InMemoryNetwork, type InMemoryBus } from "@tutti/ports/bus";
import { VirtualClock } from "@tutti/ports/clock";
import { BUCKET, PLACEMENT_KEY, type Placement, inferSubject } from "@tutti/protocol";
import { routeKeys, splitModelName, withPercent } from "@tutti/protocol";
import { InMemoryDataNetwork } from "@tutti/ports/pull";
import { InMemoryStore, isStoreFailure } from "@tutti/ports/store";
import { type ActorKey, type Instant, type Micros, Prng, after, gpuId, micros, millis } from "@tutti/units";
import { toJson } from "@tutti/wire";
import { EngineFaults } from "./actors.ts";
import { echoModel, echoRequest, readEcho } from "./echo-model.ts";
import { HostLinks } from "./host-links.ts";
import { Links } from "./links.ts";
import type { Placing } from "./placements.ts";
import type { ModelPlan, Plan } from "./plan.ts";
import type { Incarnation, Process } from "./process.ts";
import { type ProcessWorld, type RunningActor, type RunningProcess, startProcess } from "./processes.ts";
import type { Asked, Watcher } from "./watcher.ts";

/** A running actor, and its process. */
export interface Running extends RunningActor {
  readonly in: RunningProcess;
}

const PUBLISHERS = 2;
/** Most timers that fire at one instant: a simulation with more never ends. */
const FIRES_MAX = 100_000;

/**
 * A whole cluster of production's actors in virtual time. A plan groups them in processes and on hosts, and makes
 * links, store and accelerators fail.
 */
export class Cluster {
  readonly clock = new VirtualClock({ firesMax: FIRES_MAX });
  readonly links: Links;
  readonly hostLinks: HostLinks;
  readonly engines: EngineFaults;
  readonly store = new InMemoryStore({ deliver: (run) => run() });
  /** Running actors by slot. */
  readonly running = new Map<string, Running>();
  readonly asked: Asked[] = [];
  /** While true, no client can connect to the NATS server. */
  serverAway = false;
  readonly #plan: Plan;
  readonly #watcher: Watcher;
  readonly #prng: Prng;
  readonly #network: InMemoryNetwork;
  readonly #data: InMemoryDataNetwork;
  readonly #processes = new Map<string, RunningProcess>();
  readonly #processOfKey = new Map<ActorKey, string>();
  readonly #publishers: InMemoryBus[];
  readonly #stranger: InMemoryBus;
  /** Store events for processes that are cut off from it, to be delivered later. */
  readonly #held: { readonly process: Process; readonly run: () => void }[] = [];
  #pids = 0;

  constructor(plan: Plan, watcher: Watcher) {
    this.#plan = plan;
    this.#watcher = watcher;
    this.#prng = new Prng(plan.seed * 31 + 7);
    this.links = new Links(plan, this.#prng.fork());
    this.hostLinks = new HostLinks({
      faults: plan.grouping.links,
      faulty: false,
      prng: this.#prng.fork(),
      now: () => this.now,
      later: (delayUs, run) => this.later(delayUs, run),
      onDelivered: (hop) => watcher.onDelivered(hop),
    });
    this.engines = new EngineFaults(plan, this.#prng.fork());
    this.#network = new InMemoryNetwork({
      deliver: (run, hop) => this.#deliver(run, hop),
      later: (run) => this.later(5, run),
      startTimer: (delayMs, run) => {
        const alarm = this.clock.alarm(run);
        alarm.set(after(this.clock.now(), millis(delayMs)));
        return { stop: () => alarm.clear() };
      },
      choose: (count) => this.#prng.nextInt(count),
      payloadMax: 8_388_608,
    });
    this.#data = new InMemoryDataNetwork({
      schedule: (delay, run) => {
        const alarm = this.clock.alarm(run);
        alarm.set(after(this.clock.now(), delay));
        return { stop: () => alarm.clear() };
      },
      carry: ({ from, to }) => {
        const [delay] = this.links.fates(this.#processOfKey.get(from) ?? "?", this.#processOfKey.get(to) ?? "?");
        return delay === undefined ? "lost" : micros(delay);
      },
    });
    this.#publishers = Array.from({ length: PUBLISHERS }, (_, i) => this.#network.connect({ name: `publisher-${i}` }));
    this.#stranger = this.#network.connect({ name: "stranger" });
  }

  /** Starts all processes. */
  open(): void {
    if (this.#plan.placings !== undefined) this.place(this.#plan.placings.first);
    for (const slot of this.#firstSlots) this.start(slot);
    this.#plan.models.forEach((model, i) => {
      const latency = (batchSize: number): Micros => micros(model.alphaUs * batchSize + model.betaUs);
      const { name, batchSizeMax, sloMs } = model;
      const runDeadline = micros(4 * latency(batchSizeMax)); // longer than any run that a plan slows down
      const { version = "1" } = splitModelName(name);
      const echo = echoModel({ name, number: i + 1, slo: millis(sloMs), batchSizeMax, latency });
      const spec = { ...echo, version, runDeadline };
      this.store.put(BUCKET.models, name, toJson(spec), () => undefined);
    });
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
  /** Running processes. */
  get processes(): RunningProcess[] {
    return [...this.#processes.values()];
  }
  get now(): Instant {
    return this.clock.now();
  }
  later(delayUs: number, run: () => void): void {
    this.clock.alarm(run).set(after(this.clock.now(), micros(delayUs)));
  }

  /** Starts a slot's actor, with all actors of the same process. */
  start(slot: string): void {
    if (this.running.has(slot)) return;
    // The process waits for the server.
    if (this.serverAway) return this.later(5_000, () => this.start(slot));
    const plan = this.#plan.grouping.processes.find(({ slots }) => slots.includes(slot))!;
    const entry = startProcess(plan, ++this.#pids, this.#world());
    this.#processes.set(plan.name, entry);
    for (const started of entry.actors) this.running.set(started.incarnation.slot, { ...started, in: entry });
  }

  #world(): ProcessWorld {
    return {
      plan: this.#plan,
      watcher: this.#watcher,
      clock: this.clock,
      network: this.#network,
      data: this.#data,
      store: this.store,
      storeLink: (process) => ({
        reachable: () => !this.links.isCut(process.name, "store"),
        carry: (run) => this.#carryFromStore(process, run),
      }),
      links: this.hostLinks,
      engines: this.engines,
      prng: this.#prng,
      lives: (host, pid) => this.processes.some(({ process }) => process.host === host && process.pid === pid),
      onStarted: (actor: Incarnation) => {
        this.#processOfKey.set(actor.key, actor.process.name);
        this.#watcher.onStarted(actor);
      },
      onFault: (process) => {
        const [slot] = this.slots.filter((one) => this.processOf(one) === process.name);
        this.kill(slot!);
        this.later(20_000, () => this.start(slot!));
      },
    };
  }

  /** Ends a slot's process, and with it all actors in it. */
  kill(slot: string): void {
    const entry = this.running.get(slot)?.in;
    if (entry === undefined) return;
    this.#processes.delete(entry.process.name);
    entry.close();
    for (const { incarnation } of entry.actors) {
      this.running.delete(incarnation.slot);
      this.#watcher.onEnded(incarnation);
    }
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

  ask(model: ModelPlan, sloMs: number): Asked {
    const at = this.now;
    const publisher = this.#publishers[this.#prng.nextInt(PUBLISHERS)]!;
    const reply = publisher.newInbox();
    const slo = millis(sloMs);
    const id = this.asked.length + 1;
    const asked: Asked = { id, model: model.name, at, slo, reply, outcomes: [], acceptedBy: undefined, acceptedAt: at };
    this.asked.push(asked);
    this.#watcher.onAsked(asked);
    const inbox = publisher.subscribe(reply, (delivery) => {
      const outcome = { ...readEcho(delivery), at: this.now };
      asked.outcomes.push(outcome);
      this.#watcher.onOutcome(asked, outcome);
    });
    // An answer after this time is no repetition that the network made: the request is over.
    this.later(slo + 1_000_000, () => inbox.stop());
    const { payload, headers } = echoRequest(id, slo);
    publisher.publish(inferSubject(model.name, "test"), payload, { reply, headers });
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

  #deliver(run: () => void, hop: { from: string; to: string; subject: string; bytes: number }): boolean {
    const [from, to] = [processOfConnection(hop.from), processOfConnection(hop.to)];
    // No message between publishers and the system is lost or repeated: it would be another request, or none.
    const fates = from === undefined || to === undefined ? [this.#plan.hopUs] : this.links.fates(from, to);
    for (const delay of fates)
      this.later(delay, () => {
        this.#watcher.onDelivered(hop);
        run();
      });
    return fates.length > 0;
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
