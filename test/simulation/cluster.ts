import { type Actor, type ActorConfig, type ActorPorts } from "@tutti/actors";
import { createBatcher, createExecutor, createIngress, createProfiler, createRanker } from "@tutti/actors";
import { type InMemoryBus, InMemoryNetwork } from "@tutti/bus";
import { VirtualClock } from "@tutti/clock";
import { type EmulatedFault, EmulatedEngine, type Engine } from "@tutti/engine";
import { BUCKET, DEFAULT_SUB_CLUSTER, PLACEMENT_KEY, type Placement, STRIKES_MAX, inferSubject } from "@tutti/protocol";
import { routeKeys, splitModelName, withPercent } from "@tutti/protocol";
import { InMemoryDataNetwork } from "@tutti/pull";
import { InMemoryStore, isStoreFailure } from "@tutti/store";
import type { Telemetry } from "@tutti/telemetry";
import { type Instant, type Micros, Prng, actorKey, after, gpuId, micros, millis, seconds } from "@tutti/units";
import { toJson } from "@tutti/wire";
import type { Asked, Watcher } from "./watcher.ts";
import { echoModel, echoRequest, readEcho } from "./echo-model.ts";
import { Host, HostBus, HostClock, hostDataClient, hostDataHandlers, hostStore } from "./host.ts";
import { Links } from "./links.ts";
import type { Placing } from "./placements.ts";
import type { ModelPlan, Plan } from "./plan.ts";

/** A process that runs, and its actor's connections. */
export interface Running {
  readonly host: Host;
  readonly actor: Actor;
  readonly buses: readonly InMemoryBus[];
}

/** After this silence a peer is dead: five heartbeats, as in production. */
export const PEER_TIMEOUT: Micros = millis(100);
const PUBLISHERS = 2;

/** A whole cluster of production's actors in virtual time, one host each, over links, a store and accelerators that a plan makes fail. */
export class Cluster {
  readonly clock = new VirtualClock();
  readonly links: Links;
  readonly store = new InMemoryStore({ deliver: (run) => run() });
  readonly running = new Map<string, Running>();
  readonly asked: Asked[] = [];
  /** Whether engines fail, and runs take longer than planned. */
  enginesFaulty = false;
  /** Nobody can connect. */
  serverAway = false;
  readonly #plan: Plan;
  readonly #watcher: Watcher;
  readonly #prng: Prng;
  readonly #network: InMemoryNetwork;
  readonly #data: InMemoryDataNetwork;
  readonly #slotOfBus = new Map<string, string>();
  readonly #slotOfKey = new Map<number, string>();
  readonly #publishers: InMemoryBus[];
  readonly #stranger: InMemoryBus;
  /** What the store shows a host that is cut off from it. */
  readonly #held: { readonly host: Host; readonly run: () => void }[] = [];

  constructor(plan: Plan, watcher: Watcher) {
    this.#plan = plan;
    this.#watcher = watcher;
    this.#prng = new Prng(plan.seed * 31 + 7);
    this.links = new Links(plan, this.#prng.fork());
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
        const [delay] = this.links.fates(this.#slotOfKey.get(from) ?? "?", this.#slotOfKey.get(to) ?? "?");
        return delay === undefined ? "lost" : micros(delay);
      },
    });
    this.#publishers = Array.from({ length: PUBLISHERS }, (_, i) => this.#network.connect({ name: `publisher-${i}` }));
    this.#stranger = this.#network.connect({ name: "stranger" });
  }

  /** Starts everybody. */
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

  /** All that ever run; joiners last, who are not there from the beginning. */
  get slots(): string[] {
    return [...this.#firstSlots, ...this.#plan.joiners];
  }
  get #firstSlots(): string[] {
    const { rankers, batchers, executors, ingresses } = this.#plan;
    const names = (role: string, count: number) => Array.from({ length: count }, (_, i) => `${role}-${i}`);
    return [
      ...names("ranker", rankers),
      ...names("batcher", batchers),
      "profiler-0",
      ...names("executor", executors),
      ...names("ingress", ingresses),
    ];
  }
  get now(): Instant {
    return this.clock.now();
  }
  later(delayUs: number, run: () => void): void {
    this.clock.alarm(run).set(after(this.clock.now(), micros(delayUs)));
  }

  start(slot: string): void {
    if (this.running.has(slot)) return;
    // Its process waits for the server.
    if (this.serverAway) return this.later(5_000, () => this.start(slot));
    const { skewUsMax } = this.#plan;
    const key = actorKey(1 + this.#prng.nextUint32() * 4_096 + this.#prng.nextInt(4_096));
    const skew = skewUsMax === 0 ? 0 : this.#prng.nextInt(2 * skewUsMax + 1) - skewUsMax;
    const host = new Host({ slot, key, skew, watcher: this.#watcher });
    this.#slotOfKey.set(key, slot);
    this.#watcher.onStarted(host);
    const buses = [host.name, `${host.name}-bulk`].map((name) => {
      this.#slotOfBus.set(name, slot);
      return this.#network.connect({ name });
    });
    const ports: ActorPorts = {
      bus: new HostBus(buses[0]!, host),
      bulk: new HostBus(buses[1]!, host),
      store: hostStore(this.store, host, {
        reachable: () => !this.links.isCut(slot, "store"),
        carry: (run) => this.#carryFromStore(host, run),
      }),
      clock: new HostClock(this.clock, host),
      telemetry: telemetryOf(host, this.#watcher),
      randomBytes: (count) => Uint8Array.from({ length: count }, () => this.#prng.nextInt(256)),
    };
    const config: ActorConfig = {
      key,
      cluster: "main",
      host: slot,
      pid: 1,
      heartbeatEvery: millis(20),
      peerTimeout: PEER_TIMEOUT,
    };
    this.running.set(slot, { host, buses, actor: this.#create(slot, host, ports, config) });
  }

  kill(slot: string): void {
    const entry = this.running.get(slot);
    if (entry === undefined) return;
    this.running.delete(slot);
    entry.host.end(this.now);
    this.#watcher.onEnded(entry.host);
    this.#data.serverOf(entry.host.key)?.onClose.forEach((notice) => this.later(0, notice));
    this.#closeData.get(entry.host)?.();
    for (const bus of entry.buses) bus.close(() => undefined);
  }
  readonly #closeData = new Map<Host, () => void>();

  /** What was shown to hosts cut off from the store comes once they are not. */
  showHeld(): void {
    for (const { host, run } of this.#held.splice(0)) this.#carryFromStore(host, run);
  }

  disconnectPublishers(): void {
    for (const publisher of this.#publishers) publisher.disconnect("unconfirmed");
  }
  reconnectPublishers(): void {
    for (const publisher of this.#publishers) publisher.reconnect();
    this.#watcher.onPublishersBack();
  }

  /** The next run of that model never ends, unless an engine has broken under it often enough already. */
  hangNext(model: string): void {
    this.#hanging.add(model);
  }
  readonly #hanging = new Set<string>();
  /** Deaths of engines by model: one more, in a row, and the model would be quarantined. */
  readonly #deaths = new Map<string, number>();

  /** As the planner does, which goes on trying while the store is away. */
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
    // As a planner's compare-and-set has it, none is written over a later one.
    const write = (): void => {
      if (placement.epoch !== this.#placements) return;
      this.store.put(BUCKET.plan, PLACEMENT_KEY, toJson(placement), (result) => {
        if (isStoreFailure(result)) this.later(5_000, write);
      });
    };
    write();
  }
  #placements = 0;

  /** As an operator does, who tries again while the store is away. */
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
  #subClusterOf(ranker: number): string {
    const { subClusters } = this.#plan.placings ?? { subClusters: [DEFAULT_SUB_CLUSTER] };
    return subClusters[ranker % subClusters.length]!;
  }

  /** A whole number below `max`. */
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
    // One that comes after this time is no repetition that the network made: the request is over.
    this.later(slo + 1_000_000, () => inbox.stop());
    const { payload, headers } = echoRequest(id, slo);
    publisher.publish(inferSubject(model.name, "test"), payload, { reply, headers });
    return asked;
  }

  /** T8: nothing that a stranger can send may stop anybody. */
  junk(): void {
    const bytes = Uint8Array.from({ length: this.#prng.nextInt(80) }, () => this.#prng.nextInt(256));
    const frame = Uint8Array.of(0x75, 0x74, 1, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, ...bytes);
    for (const { host } of [...this.running.values()]) {
      const subject = `tutti.v1.main.to.${host.key.toString(36)}`;
      for (const payload of [bytes, frame, frame.subarray(0, 20)]) this.#stranger.publish(subject, payload);
    }
    for (const role of ["ingress", "batcher", "ranker", "executor"])
      this.#stranger.publish(`tutti.v1.main.beat.${role}`, frame);
    this.#stranger.publish(inferSubject("model-0", "test"), bytes, { reply: "_INBOX.stranger.x" });
    this.#stranger.publish(inferSubject("nothing", "test"), bytes, { reply: "_INBOX.stranger.x" });
  }

  #create(slot: string, host: Host, ports: ActorPorts, config: ActorConfig): Actor {
    const [role, index] = slot.split("-") as [string, string];
    const ready = (): void => undefined;
    switch (role) {
      case "ranker":
        return createRanker(
          ports,
          { ...config, subCluster: this.#subClusterOf(Number(index)), pingEvery: millis(10), ctrlFloor: millis(1) },
          ready,
        );
      case "batcher":
        return createBatcher(
          ports,
          {
            ...config,
            policy: { kind: this.#plan.policy },
            prefer: this.#plan.seed % 2 === 1 ? "latency" : "accelerators",
            gather: this.#plan.gather,
            delayFloors: { ctrl: micros(400), perItem: 1, perKilobyte: 0 },
            marginShare: 0.05,
          },
          ready,
        );
      case "profiler":
        return createProfiler(
          ports,
          {
            ...config,
            quantile: 0.99,
            runs: 10,
            budget: millis(200),
            gpusMax: 4,
            overhead: millis(1),
            window: seconds(10),
          },
          ready,
        );
      case "ingress":
        return this.#createIngress(host, ports, config);
      default:
        return this.#createExecutor(Number(index), host, ports, config);
    }
  }

  #createIngress(host: Host, ports: ActorPorts, config: ActorConfig): Actor {
    return createIngress(
      {
        ...ports,
        serveData: (handlers) => {
          const watched = this.#watcher.watchRows(host, handlers);
          const server = this.#data.serve(host.key, hostDataHandlers(watched, host));
          this.#closeData.set(host, () => server.close(() => undefined));
          return { address: () => undefined, close: (done) => server.close(() => host.perform(done)) };
        },
      },
      { ...config, replyScope: "any", respondFloor: micros(200), requestsMax: this.#plan.requestsMax },
      () => undefined,
    );
  }

  #createExecutor(index: number, host: Host, ports: ActorPorts, config: ActorConfig): Actor {
    const { gpusPerExecutor, placings } = this.#plan;
    const brief = placings && { lingerFor: micros(placings.lingerForUs), keptFor: micros(placings.keptForUs) };
    const gpus = Array.from({ length: gpusPerExecutor }, (_, i) => gpuId(index * gpusPerExecutor + i));
    const data = hostDataClient(this.#data.connect(host.key), host, (pull) => this.#watcher.onPull(host, pull));
    return createExecutor(
      {
        ...ports,
        data,
        engines: gpus.map((gpu) => ({ gpu, engine: this.#engine(host, gpu, ports) })),
        onFault: () => {
          this.kill(host.slot);
          this.later(20_000, () => this.start(host.slot));
        },
      },
      { ...config, ...brief },
      () => undefined,
    );
  }

  #engine(host: Host, gpu: number, { clock }: ActorPorts): Engine {
    const prng = this.#prng.fork();
    const engine = new EmulatedEngine({
      clock,
      latency: (name, _, batchSize) => {
        const model = this.#plan.models.find((one) => one.name === name);
        if (model === undefined) return undefined;
        const slowdown = this.enginesFaulty ? 1 + prng.nextFloat() * (this.#plan.slowdownMax - 1) : 1;
        return micros(Math.round((model.alphaUs * batchSize + model.betaUs) * slowdown));
      },
      fault: ({ model, batchSize }) => (this.enginesFaulty ? this.#fault(model, batchSize, prng) : undefined),
    });
    return {
      type: engine.type,
      load: (model, done) => engine.load(model, done),
      unload: (name, done) => engine.unload(name, done),
      stop: (done) => engine.stop(done),
      run: (batch, done) => {
        this.#watcher.onRun(host, gpu, batch.batchSize);
        engine.run(batch, (outcome) => {
          this.#watcher.onRan(host, gpu);
          done(outcome);
        });
      },
    };
  }

  #fault(model: string, batchSize: number, prng: Prng): EmulatedFault | undefined {
    const { rows, batch, broken } = this.#plan.engine;
    const deaths = this.#deaths.get(model) ?? 0;
    const mayDie = deaths < STRIKES_MAX - 1;
    if (mayDie && this.#hanging.delete(model)) {
      this.#deaths.set(model, deaths + 1);
      return { kind: "hang" };
    }
    if (prng.nextFloat() < broken && mayDie) {
      this.#deaths.set(model, deaths + 1);
      return { kind: "batch", reason: "broken", fault: true };
    }
    if (prng.nextFloat() < batch) return { kind: "batch", reason: "this one failed", fault: false };
    if (prng.nextFloat() < rows)
      return { kind: "rows", failedRows: [{ row: prng.nextInt(batchSize), reason: "bad row" }] };
    return undefined;
  }

  #deliver(run: () => void, hop: { from: string; to: string; subject: string; bytes: number }): boolean {
    const [from, to] = [this.#slotOfBus.get(hop.from), this.#slotOfBus.get(hop.to)];
    // Between publishers and the system nothing is lost or repeated: it would be another request, or none.
    const fates = from === undefined || to === undefined ? [this.#plan.hopUs] : this.links.fates(from, to);
    for (const delay of fates)
      this.later(delay, () => {
        this.#watcher.onDelivered(hop);
        run();
      });
    return fates.length > 0;
  }

  #carryFromStore(host: Host, run: () => void): void {
    if (this.links.isCut("store", host.slot)) this.#held.push({ host, run });
    else this.later(this.#plan.hopUs, run);
  }
}

function telemetryOf(host: Host, watcher: Watcher): Telemetry {
  const write = (level: string) => (fields: unknown, text?: string) => watcher.onLogged(host, level, fields, text);
  const log: Telemetry["log"] = {
    debug: () => undefined,
    info: write("info"),
    warn: write("warn"),
    error: write("error"),
    child: () => log,
  };
  const span = {
    context: { traceId: "0".repeat(32), spanId: "0".repeat(16), sampled: false },
    set: () => undefined,
    event: () => undefined,
    keep: () => undefined,
    end: () => undefined,
  };
  return { log, tracer: { enabled: false, start: () => span } };
}
