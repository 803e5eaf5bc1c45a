import {
  createBatcher,
  createPlanner,
  createProfiler,
  createRanker,
  type LocalActors,
  type PlannerConfig,
} from "@tutti/actors";
import type { ActorPorts } from "@tutti/actors/runtime";
import { createExecutor, type ExecutorPorts, type LastRun } from "@tutti/executor";
import { createIngress } from "@tutti/ingress";
import type { Bus } from "@tutti/ports/bus";
import { type Clock, VirtualClock } from "@tutti/ports/clock";
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
import { noTelemetry } from "@tutti/ports/telemetry";
import {
  type GpuId,
  type Instant,
  type Micros,
  Prng,
  actorKey,
  after,
  between,
  gpuId,
  micros,
  millis,
  seconds,
} from "@tutti/units";
import { toJson } from "@tutti/wire";
import { ActorCluster } from "../fixtures/actor-cluster/actor-cluster.ts";
import { echoModel, echoRequest, readEcho } from "../fixtures/actor-cluster/echo-model.ts";
import type { CreateActor } from "../fixtures/actor-cluster/processes.ts";
import { BATCHER, INGRESS, PROFILER } from "../fixtures/actor-cluster/role-settings.ts";
import { FAST_TIMEOUTS } from "../fixtures/actor-cluster/timeouts.ts";
import { otherBus, otherStore } from "./other-release.ts";
import { SwitchedHandlers } from "./switched-handlers.ts";
import type { Asked, VirtualClusterOptions } from "./virtual-cluster-options.ts";

const HOST = "virtual";
const nothing = (): void => undefined;

/** A cluster for tests that say what happens in it: each actor has a process of its own and is called by its name. */
export class VirtualCluster extends ActorCluster {
  readonly asked: Asked[] = [];
  /** Exceptions of actors, and errors that their connections report. */
  readonly faults: string[];
  readonly #options: VirtualClusterOptions;
  readonly #prng: Prng;
  /** Data planes of the ingresses, by name. */
  readonly #data = new Map<string, SwitchedHandlers>();
  readonly #publisher: Bus;
  readonly #latencies = new Map<string, (batchSize: number) => Micros>();
  readonly #numbers = new Map<string, number>();
  #models = 0;
  #placements = 0;

  constructor(options: VirtualClusterOptions = {}) {
    const { seed = 1, hop = micros(50), dataHop = micros(30), gatherFor, loses, telemetry } = options;
    const prng = new Prng(seed);
    const faults: string[] = [];
    let keys = 0;
    super({
      ...{ prng, announces: true, clock: new VirtualClock({ moves: options.moves ?? false }) },
      watcher: {
        onCrash: ({ name }, error) => {
          faults.push(`${name} threw ${stackOf(error)}`);
          // The actor's caller may catch what it throws; the test that advances time does not.
          this.later(0, () => {
            throw error;
          });
        },
      },
      timeouts: { ...FAST_TIMEOUTS, actor: { ...FAST_TIMEOUTS.actor, ...(gatherFor !== undefined && { gatherFor }) } },
      telemetry: ({ slot }) => telemetry?.(slot) ?? noTelemetry,
      nextKey: () => actorKey(++keys * 1_000_003),
      nextSkew: () => () => 0,
      storeLink: () => ({ reachable: () => true, carry: (run) => this.later(hop, run) }),
      statusUs: Math.min(hop, 5),
      fates: ({ subject }) => (loses?.(subject) === true ? [] : [hop]),
      dataFate: () => dataHop,
    });
    this.faults = faults;
    this.#options = options;
    this.#prng = prng;
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
    /** It is parked after so many seconds without a request, and its requests then have so many more. */
    scaleToZero?: { readonly idleS: number; readonly coldStartS: number };
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
    const { runDeadlineMs, pace, memory, scaleToZero, isUnmeasured = false } = model;
    const { profile, ...unmeasured } = spec;
    const { version } = splitModelName(model.name);
    const more = {
      ...(version !== undefined && { version }),
      ...(memory !== undefined && { memory }),
      ...(runDeadlineMs !== undefined && { runDeadline: millis(runDeadlineMs) }),
      ...(pace !== undefined && { pace }),
      ...(scaleToZero !== undefined && {
        scaleToZero: { idle: seconds(scaleToZero.idleS), coldStart: seconds(scaleToZero.coldStartS) },
      }),
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
    this.#start(name, ({ ports, config }) =>
      createRanker(
        { ...ports, ...this.#vitalsOf(name, ports.clock) },
        { ...config, ...FAST_TIMEOUTS.ranker, subCluster },
        nothing,
      ),
    );
  }
  /** The busy time of a ranker's process, which takes none in virtual time. */
  #vitalsOf(name: string, clock: Clock): Pick<ActorPorts, "vitals"> {
    const { rankerBusy } = this.#options;
    if (rankerBusy === undefined) return {};
    let [at, loopBusyUs] = [clock.now(), 0];
    return {
      vitals: () => {
        const now = clock.now();
        loopBusyUs += Math.round(rankerBusy(name) * between(at, now));
        at = now;
        return { loopBusyUs };
      },
    };
  }
  startPlanner(name: string, options: Pick<PlannerConfig, "epoch" | "budgetShare" | "subClustersMin">): void {
    this.#start(name, ({ ports, config }) => createPlanner(ports, { ...config, ...options }, nothing));
  }
  startBatcher(name: string): void {
    const { policy = { kind: "deferred" }, delayFloors, latency } = this.#options;
    const more = { ...(delayFloors !== undefined && { delayFloors }), ...(latency !== undefined && { latency }) };
    this.#start(name, ({ ports, config }) => createBatcher(ports, { ...config, ...BATCHER, policy, ...more }, nothing));
  }
  startProfiler(name: string): void {
    const { timesWindow } = this.#options;
    const more = timesWindow !== undefined && { timesWindow };
    this.#start(name, ({ ports, config }) => createProfiler(ports, { ...config, ...PROFILER, ...more }, nothing));
  }
  /** @param local - where the ingress registers for a gateway of its process */
  startIngress(name: string, local?: LocalActors): void {
    const { pipelines, respondFloor, held } = this.#options;
    const near = { ...(local !== undefined && { local }), ...(pipelines !== undefined && { pipelines }) };
    const bounds = { ...(respondFloor !== undefined && { respondFloor }), ...held };
    this.#start(name, ({ ports, config, serveData, connect }) => {
      const serveSwitched: typeof serveData = (handlers) => {
        const switched = new SwitchedHandlers(handlers);
        this.#data.set(name, switched);
        return serveData(switched);
      };
      const answers = this.#faultsOf(name, connect("-answers"));
      return createIngress(
        { ...ports, answers, serveData: serveSwitched, ...near },
        { ...config, ...INGRESS, ...bounds },
        nothing,
      );
    });
  }
  startExecutor(
    name: string,
    gpus: readonly GpuId[],
    lastRuns: readonly LastRun[] = [],
    more: Pick<ExecutorPorts, "held"> = {},
  ): void {
    const { restartAfter, aloneShare, memoryBytesMax, wrapEngine = (engine: Engine) => engine } = this.#options;
    const bounds = {
      ...(aloneShare !== undefined && { aloneShare }),
      ...(memoryBytesMax !== undefined && { memoryBytesMax }),
    };
    const onFault = (): void => {
      this.kill(name);
      if (restartAfter !== undefined) this.later(restartAfter, () => this.startExecutor(name, gpus));
    };
    this.#start(name, ({ ports, config, openData }) => {
      const engines = gpus.map((gpu) => ({ gpu, engine: wrapEngine(this.#engine(gpu, ports.clock), gpu) }));
      const own = { data: openData(), engines, onFault, lastRuns, ...more };
      return createExecutor({ ...ports, ...own }, { ...config, ...bounds }, nothing);
    });
  }

  #start(name: string, create: CreateActor): void {
    const other = this.#options.otherRelease?.(name);
    this.startProcess({ name, host: HOST, slots: [name] }, (made) => {
      for (const bus of [made.ports.bus, made.ports.bulk]) this.#faultsOf(name, bus);
      if (other === undefined) return create(made);
      const { bus, store } = made.ports;
      return create({ ...made, ports: { ...made.ports, bus: otherBus(bus), store: otherStore(store, other) } });
    });
  }
  #faultsOf(name: string, bus: Bus): Bus {
    bus.onStatus((status) => status.kind === "error" && this.faults.push(`${name}: ${status.text}`));
    return bus;
  }

  #engine(gpu: GpuId, clock: Clock): Engine {
    const { fault, runBytes } = this.#options;
    return new EmulatedEngine({
      clock,
      ...(runBytes !== undefined && { runBytes }),
      latency: (model, _, batchSize) => {
        const planned = this.#latencies.get(model)?.(batchSize);
        return planned === undefined ? undefined : micros(Math.round(planned * (this.#options.runTimes?.() ?? 1)));
      },
      ...(fault === undefined ? {} : { fault: (batch, runs) => fault(gpu, runs, batch) }),
    });
  }

  /** Drains an actor as by SIGTERM. */
  drain(name: string): void {
    this.running.get(name)?.actor.drain(() => this.kill(name));
  }

  /** Makes an actor's data plane hang: it takes pulls and never answers. */
  hangData(name: string): void {
    this.#data.get(name)!.stall();
  }
  /** Stalls an actor's data plane for a while: pulls are answered when it goes on. */
  stallData(name: string, duration: Micros): void {
    const data = this.#data.get(name)!;
    data.stall();
    this.later(duration, () => data.resume());
  }
  /** An ingress' data handlers, as an executor calls them: tests deliver unrequested results. */
  dataOf(name: string): DataHandlers {
    return this.#data.get(name)!;
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
      /** Costs of a late answer; the first step is at `sloMs`. */
      readonly costs?: string;
      /** Default: a request. */
      readonly isJob?: boolean;
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
    const { units, traceparent, id, version, costs, isJob } = options;
    const hint = {
      ...(isJob === true && { [HEADER.job]: "1" }),
      ...(id !== undefined && { [HEADER.messageId]: id }),
      ...(version !== undefined && { [HEADER.version]: version }),
      ...(costs !== undefined && { [HEADER.costs]: costs }),
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
}

const stackOf = (error: unknown): string => (error instanceof Error ? (error.stack ?? error.message) : String(error));
