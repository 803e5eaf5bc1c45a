import {
  createBatcher,
  createPlanner,
  createProfiler,
  createRanker,
  type Actor,
  type ActorConfig,
  type ActorPorts,
  type LocalActors,
} from "@tutti/actors";
import { createExecutor, type LastRun } from "@tutti/executor";
import { createIngress } from "@tutti/ingress";
import { type Bus, InMemoryNetwork } from "@tutti/ports/bus";
import { VirtualClock } from "@tutti/ports/clock";
import { EmulatedEngine, type Engine } from "@tutti/ports/engine";
import {
  BUCKET,
  DEFAULT_SUB_CLUSTER,
  HEADER,
  PLACEMENT_KEY,
  type PaceSpec,
  type Placement,
  cancelSubject,
  inferSubject,
  splitModelName,
} from "@tutti/protocol";
import type { DataHandlers } from "@tutti/ports/pull";
import { InMemoryStore } from "@tutti/ports/store";
import {
  type ActorKey,
  type GpuId,
  type Instant,
  type Micros,
  Prng,
  actorKey,
  after,
  gpuId,
  micros,
  millis,
  seconds,
} from "@tutti/units";
import { toJson } from "@tutti/wire";
import { type Asked, FAST_ACTOR, type VirtualClusterOptions } from "./virtual-cluster-options.ts";
import { stalledHandlers, virtualDataClient } from "./virtual-data-client.ts";
import { gated, silent } from "./virtual-process.ts";
import { echoModel, echoRequest, readEcho } from "../simulation/echo-model.ts";

/**
 * A whole cluster of production's own actors in virtual time, over the bus and store in memory and emulated
 * accelerators.
 */
export class VirtualCluster {
  readonly clock = new VirtualClock();
  readonly network: InMemoryNetwork;
  readonly store: InMemoryStore;
  readonly actors = new Map<
    string,
    { readonly actor: Actor; readonly buses: Bus[]; readonly life: { alive: boolean } }
  >();
  readonly asked: Asked[] = [];
  readonly #options: VirtualClusterOptions;
  readonly #prng: Prng;
  readonly #data = new Map<ActorKey, DataHandlers>();
  readonly #publisher: Bus;
  readonly #latencies = new Map<string, (batchSize: number) => Micros>();
  readonly #numbers = new Map<string, number>();
  #models = 0;
  #placements = 0;
  #keys = 1;

  constructor(options: VirtualClusterOptions = {}) {
    this.#options = options;
    this.#prng = new Prng(options.seed ?? 1);
    const hop = options.hop ?? micros(50);
    const soon = (run: () => void): void => this.#later(micros(5), run);
    this.network = new InMemoryNetwork({
      deliver: (run, { subject }) => {
        if (options.loses?.(subject) === true) return false;
        return this.#later(hop, run);
      },
      later: soon,
      startTimer: (delayMs, run) => {
        const alarm = this.clock.alarm(run);
        alarm.set(after(this.clock.now(), millis(delayMs)));
        return { stop: () => alarm.clear() };
      },
      choose: (count) => this.#prng.nextInt(count),
      payloadMax: 8_388_608,
    });
    this.store = new InMemoryStore({ deliver: (run) => this.#later(hop, run) });
    this.#publisher = this.network.connect({ name: "publisher" });
    for (const subCluster of options.subClusters ?? [DEFAULT_SUB_CLUSTER])
      for (let i = 0; i < (options.rankers ?? 2); i++)
        this.startRanker(subCluster === DEFAULT_SUB_CLUSTER ? `ranker-${i}` : `ranker-${subCluster}-${i}`, subCluster);
    for (let i = 0; i < (options.batchers ?? 1); i++) this.startBatcher(`batcher-${i}`);
    this.startProfiler("profiler");
    const executors = options.executors ?? 1;
    const perExecutor = Math.ceil((options.gpus ?? 2) / executors);
    for (let i = 0; i < executors; i++)
      this.startExecutor(
        `executor-${i}`,
        Array.from({ length: perExecutor }, (_, j) => gpuId(i * perExecutor + j)),
      );
    this.startIngress("ingress");
  }

  /** Adds a model (or a version of one: `m/2`) with l(b) = alpha·b + beta. Its output echoes its one float input. */
  addModel(model: {
    name: string;
    alphaMs: number;
    betaMs: number;
    sloMs: number;
    batchSizeMax?: number;
    runDeadlineMs?: number;
    /** Run times depend on the numbers in the rows; `alphaMs` and `betaMs` are only the believed latency. */
    pace?: PaceSpec;
    /** Bytes of its weights. */
    memory?: number;
    /** The latencies are not given: the profiler has to measure them. */
    isUnmeasured?: boolean;
  }): void {
    const batchSizeMax = model.batchSizeMax ?? 32;
    const latency = (batchSize: number): Micros => millis(model.alphaMs * batchSize + model.betaMs);
    this.#latencies.set(model.name, latency);
    this.#numbers.set(model.name, this.#models + 1);
    const spec = echoModel({
      name: model.name,
      number: ++this.#models,
      slo: millis(model.sloMs),
      batchSizeMax,
      latency,
    });
    const { runDeadlineMs, pace, memory, isUnmeasured = false } = model;
    const { profile, ...unmeasured } = spec;
    const { version } = splitModelName(model.name);
    const more = {
      ...(version !== undefined && { version }),
      ...(memory !== undefined && { memory }),
      ...(runDeadlineMs !== undefined && { runDeadline: millis(runDeadlineMs) }),
      ...(pace !== undefined && { pace }),
    };
    const value = { ...unmeasured, ...(!isUnmeasured && { profile }), ...more };
    this.store.put(BUCKET.models, spec.name, toJson(value), () => undefined);
  }

  /**
   * Writes a placement, as the planner would.
   *
   * @param models - by name: where each is, and perhaps where it goes: `main`, `main>s1`
   * @param gpus - where each is
   */
  place(models: Readonly<Record<string, string>>, gpus: readonly (string | undefined)[]): void {
    const placement: Placement = {
      ...{ epoch: ++this.#placements, madeAt: this.clock.now() },
      models: Object.entries(models).map(([name, where]) => {
        const [subCluster, next] = where.split(">") as [string, string | undefined];
        return { number: this.#numbers.get(name)!, subCluster, ...(next !== undefined && { next }) };
      }),
      gpus: gpus.flatMap((subCluster, gpu) => (subCluster === undefined ? [] : [{ gpu: gpuId(gpu), subCluster }])),
    };
    this.store.put(BUCKET.plan, PLACEMENT_KEY, toJson(placement), () => undefined);
  }

  startRanker(name: string, subCluster = DEFAULT_SUB_CLUSTER): void {
    this.#start(name, (ports, config, ready) =>
      createRanker(ports, { ...config, subCluster, pingEvery: millis(10), ctrlFloor: millis(1) }, ready),
    );
  }
  startPlanner(name: string, options: { readonly epoch: Micros; readonly budgetShare?: number }): void {
    this.#start(name, (ports, config, ready) => createPlanner(ports, { ...config, ...options }, ready));
  }
  startBatcher(name: string): void {
    const policy = this.#options.policy ?? { kind: "deferred" };
    this.#start(name, (ports, config, ready) =>
      createBatcher(
        ports,
        {
          ...config,
          policy,
          gather: "target",
          delayFloors: this.#options.delayFloors ?? { ctrl: micros(400), perItem: 1, perKilobyte: 0 },
          marginShare: 0.05,
          ...(this.#options.latency !== undefined && { latency: this.#options.latency }),
        },
        ready,
      ),
    );
  }
  startProfiler(name: string): void {
    this.#start(name, (ports, config, ready) =>
      createProfiler(
        ports,
        {
          ...config,
          ...{ quantile: 0.99, runs: 10 },
          budget: millis(200),
          gpusMax: 4,
          overhead: millis(1),
          window: seconds(10),
          ...(this.#options.timesWindow !== undefined && { timesWindow: this.#options.timesWindow }),
        },
        ready,
      ),
    );
  }
  /** @param local - where the ingress registers for a gateway of its process */
  startIngress(name: string, local?: LocalActors): void {
    this.#start(name, (ports, config, ready) => {
      const serveData = (handlers: DataHandlers) => {
        this.#data.set(config.key, handlers);
        return { address: () => undefined, close: (done: () => void) => (this.#data.delete(config.key), done()) };
      };
      return createIngress(
        {
          ...{ ...ports, serveData, ...(local !== undefined && { local }) },
          ...(this.#options.pipelines !== undefined && { pipelines: this.#options.pipelines }),
        },
        {
          ...config,
          replyScope: "any",
          respondFloor: this.#options.respondFloor ?? micros(200),
          ...this.#options.held,
        },
        ready,
      );
    });
  }
  startExecutor(name: string, gpus: readonly GpuId[], lastRuns: readonly LastRun[] = [], more = {}): void {
    const { restartAfter, aloneShare, memoryBytesMax, wrapEngine = (engine: Engine) => engine } = this.#options;
    this.#start(name, (ports, config, ready, life) => {
      const onFault = (): void => {
        this.kill(name);
        if (restartAfter !== undefined) this.#later(restartAfter, () => this.startExecutor(name, gpus));
      };
      const engines = gpus.map((gpu) => ({ gpu, engine: wrapEngine(this.#engine(gpu), gpu) }));
      const hop = this.#options.dataHop ?? micros(30);
      const later = (delay: Micros, run: () => void): void => this.#later(delay, run);
      const data = virtualDataClient({ handlers: this.#data, hop, later, life });
      const bounds = {
        ...(aloneShare !== undefined && { aloneShare }),
        ...(memoryBytesMax !== undefined && { memoryBytesMax }),
      };
      return createExecutor(
        {
          ...ports,
          data,
          ...{ engines, onFault, lastRuns },
          ...more,
        },
        { ...config, ...bounds },
        ready,
      );
    });
  }

  #engine(gpu: GpuId): Engine {
    const { fault } = this.#options;
    return new EmulatedEngine({
      clock: this.clock,
      latency: (model, _, batchSize) => {
        const planned = this.#latencies.get(model)?.(batchSize);
        return planned === undefined ? undefined : micros(Math.round(planned * (this.#options.runTimes?.() ?? 1)));
      },
      ...(fault === undefined ? {} : { fault: (batch, runs) => fault(gpu, runs, batch) }),
    });
  }

  /** Kills an actor as by SIGKILL: its connections break at once, and none of its pending work happens. */
  kill(name: string): void {
    const entry = this.actors.get(name);
    if (entry === undefined || !entry.life.alive) return;
    entry.life.alive = false;
    this.#data.delete(entry.actor.key);
    for (const bus of entry.buses) bus.close(() => undefined);
  }
  /** Drains an actor as by SIGTERM. */
  drain(name: string): void {
    this.actors.get(name)?.actor.drain(() => this.kill(name));
  }

  /** Makes an actor's data plane hang: it takes pulls and never answers. */
  hangData(name: string): void {
    const entry = this.actors.get(name);
    if (entry !== undefined) this.#data.set(entry.actor.key, { onPull: () => undefined, onResults: () => undefined });
  }
  /** Stalls an actor's data plane for a while: pulls are answered when it goes on. */
  stallData(name: string, duration: Micros): void {
    const key = this.actors.get(name)!.actor.key;
    const handlers = this.#data.get(key)!;
    const { stalled, resume } = stalledHandlers(handlers);
    this.#data.set(key, stalled);
    this.#later(duration, () => {
      this.#data.set(key, handlers);
      resume();
    });
  }
  /** An ingress' data handlers, as an executor calls them: tests deliver unrequested results. */
  dataOf(name: string): DataHandlers | undefined {
    return this.#data.get(this.actors.get(name)!.actor.key);
  }

  run(duration: Micros): void {
    this.clock.advanceTo(after(this.clock.now(), duration));
  }
  runUntil(done: () => boolean, limit: Micros = seconds(10)): boolean {
    return this.clock.runUntil(done, after(this.clock.now(), limit));
  }

  ask(
    model: string,
    options: {
      readonly sloMs?: number;
      readonly value?: number;
      readonly app?: string;
      /** Size hint. */
      readonly units?: number;
      readonly traceparent?: string;
      /** The publisher's own request id. */
      readonly id?: string;
      readonly version?: string;
    } = {},
  ): Asked {
    const at = this.clock.now();
    const value = options.value ?? this.asked.length + 1;
    const sloMs = options.sloMs ?? 50;
    const reply = this.#publisher.newInbox();
    const asked: Asked = { at, deadline: after(at, millis(sloMs)), value, reply, outcomes: [] };
    this.asked.push(asked);
    this.#publisher.subscribe(reply, (delivery) => {
      asked.outcomes.push({ ...readEcho(delivery), at: this.clock.now() });
    });
    const { payload, headers } = echoRequest(value, millis(sloMs));
    const { units, traceparent, id, version } = options;
    const hint = {
      ...(id !== undefined && { [HEADER.messageId]: id }),
      ...(version !== undefined && { [HEADER.version]: version }),
      ...(units !== undefined && { [HEADER.size]: String(units) }),
      ...(traceparent !== undefined && { [HEADER.traceparent]: traceparent }),
    };
    const subject = inferSubject(model, options.app ?? "test");
    this.#publisher.publish(subject, payload, { reply, headers: { ...headers, ...hint } });
    return asked;
  }

  /** Cancels a request, in the name of an application. */
  cancel({ reply }: Asked, app = "test"): void {
    this.#publisher.publish(cancelSubject(app), new TextEncoder().encode(reply));
  }

  /** Poisson arrivals for a while. @returns the requests */
  load(model: string, options: { readonly rate: number; readonly duration: Micros; readonly sloMs: number }): Asked[] {
    const first = this.asked.length;
    const end = after(this.clock.now(), options.duration);
    let next = this.clock.now() as number;
    for (;;) {
      next += this.#prng.nextExponential(options.rate / 1e6);
      if (next >= end) break;
      this.clock.advanceTo(Math.round(next) as Instant);
      this.ask(model, { sloMs: options.sloMs });
    }
    this.clock.advanceTo(end);
    return this.asked.slice(first);
  }

  #start(
    name: string,
    create: (ports: ActorPorts, config: ActorConfig, ready: () => void, life: { readonly alive: boolean }) => Actor,
  ): void {
    const key = actorKey(this.#keys++ * 1_000_003);
    const [bus, bulk] = [this.network.connect({ name }), this.network.connect({ name: `${name}-bulk` })];
    const answers = name.startsWith("ingress") ? [this.network.connect({ name: `${name}-answers` })] : [];
    const life = { alive: true };
    const ports: ActorPorts = {
      bus,
      bulk,
      ...(answers[0] !== undefined && { answers: answers[0] }),
      store: gated(this.store, () => life.alive),
      clock: this.clock,
      telemetry: this.#options.telemetry?.(name) ?? silent,
      randomBytes: (count) => Uint8Array.from({ length: count }, () => this.#prng.nextInt(256)),
    };
    const config: ActorConfig = {
      key,
      ...FAST_ACTOR,
      ...(this.#options.gatherFor !== undefined && { gatherFor: this.#options.gatherFor }),
    };
    this.actors.set(name, {
      actor: create(ports, config, () => undefined, life),
      buses: [bus, bulk, ...answers],
      life,
    });
  }

  #later(delay: Micros, run: () => void): void {
    const alarm = this.clock.alarm(run);
    alarm.set(after(this.clock.now(), delay));
  }
}
