/** Production's actors, as a plan configures them. */
import { type Actor, type ActorPorts, createBatcher, createPlanner, createProfiler, createRanker } from "@tutti/actors";
import { createExecutor } from "@tutti/executor";
import { createIngress } from "@tutti/ingress";
import { EmulatedEngine, type EmulatedFault, type Engine } from "@tutti/ports/engine";
import { DEFAULT_SUB_CLUSTER, STRIKES_MAX } from "@tutti/protocol";
import { type Telemetry, passingTracer } from "@tutti/ports/telemetry";
import type { Prng } from "@tutti/units";
import { after, gpuId, micros } from "@tutti/units";
import type { Incarnation } from "../fixtures/actor-cluster/process.ts";
import type { MadeOf } from "../fixtures/actor-cluster/processes.ts";
import { BATCHER, INGRESS, PROFILER } from "../fixtures/actor-cluster/role-settings.ts";
import { type Loaded, loadedOf } from "./families.ts";
import { held as holding, memoryOf } from "./memory.ts";
import type { Parts } from "./parts.ts";
import { servedPipeline } from "./pipelines.ts";
import type { Plan } from "./plan.ts";
import { factorOf, latencyOf } from "./unlike-executors.ts";
import type { Watcher } from "./watcher.ts";

export interface ActorMakers {
  readonly plan: Plan;
  readonly watcher: Watcher;
  readonly engines: EngineFaults;
  readonly parts: Parts | undefined;
}

/** @param onFault - called when an engine is unusable */
export function createActor({ plan, watcher, engines, parts }: ActorMakers, made: MadeOf, onFault: () => void): Actor {
  const { actor, ports, config } = made;
  const [role, index] = actor.slot.split("-") as [string, string];
  const ready = (): void => undefined;
  switch (role) {
    case "ranker": {
      const subCluster = subClusterOf(plan, Number(index));
      return createRanker(ports, { ...config, ...plan.timeouts.ranker, subCluster }, ready);
    }
    case "batcher": {
      const { policy, gather, seed } = plan;
      const prefer = seed % 2 === 1 ? "latency" : "accelerators";
      return createBatcher(ports, { ...config, ...BATCHER, policy: { kind: policy }, prefer, gather }, ready);
    }
    case "planner": {
      const { epoch, subClustersMin } = plan.planned!;
      return createPlanner(ports, { ...config, epoch, subClustersMin }, ready);
    }
    case "profiler":
      return createProfiler(ports, { ...config, ...PROFILER }, ready);
    case "ingress": {
      const { serveData } = made;
      const { requestsMax } = plan;
      const pipelines = servedPipeline(plan, ports.clock);
      return createIngress(
        { ...ports, serveData, ...(pipelines && { pipelines }) },
        { ...config, ...INGRESS, requestsMax },
        ready,
      );
    }
    default: {
      const { gpusPerExecutor, placings } = plan;
      const gpus = Array.from({ length: gpusPerExecutor }, (_, i) => gpuId(Number(index) * gpusPerExecutor + i));
      const factor = factorOf(plan, Number(index));
      const loading = (inner: Engine): Engine => loadedIn(inner, ports.clock, plan.planned?.loadUs);
      const engine = (): Engine => unlike(engines.engine(ports, actor, factor), plan, factor);
      const memoryBytesMax = memoryOf(plan, actor.key);
      const bytesOf = (name: string): number => {
        const number = loadedOf(plan).find(({ model }) => model.name === name)?.number ?? 0;
        return plan.memory?.models[number - 1] ?? 0;
      };
      const bounded = (inner: Engine, gpu: number): Engine =>
        memoryBytesMax === undefined
          ? inner
          : holding(delegating(inner), (bytes) => watcher.onHeld(actor, gpu, bytes, memoryBytesMax), bytesOf);
      const driven = gpus.map((gpu) => ({
        gpu,
        engine: watched(bounded(loading(engine()), gpu), { actor, gpu, watcher }),
      }));
      const data = made.openData();
      const held = parts?.heldBy(actor.slot);
      const own = { data, engines: driven, onFault, ...(held && { held }) };
      const isReady = (): void => parts?.ready(actor.slot);
      return createExecutor(
        { ...ports, ...own },
        { ...config, ...placings?.brief, ...(memoryBytesMax !== undefined && { memoryBytesMax }) },
        isReady,
      );
    }
  }
}

const subClusterOf = ({ placings, planned }: Plan, ranker: number): string => {
  const subClusters = (placings ?? planned)?.subClusters ?? [DEFAULT_SUB_CLUSTER];
  return subClusters[ranker % subClusters.length]!;
};

/** An engine of one of two types, which says its latencies. Where there is one type, models say them. */
function unlike(engine: Engine, plan: Plan, factor: number): Engine {
  if (plan.slow === undefined) return engine;
  const models = loadedOf(plan);
  return {
    ...delegating(engine),
    type: factor === 1 ? engine.type : "slow",
    latencyOf: (name, _, batchSize) => {
      const loaded = models.find(({ model }) => model.name === name);
      return loaded && latencyOf(loaded.model, batchSize, factor);
    },
  };
}

/** An engine that takes so long to load a model; undefined: it loads at once. */
function loadedIn(engine: Engine, clock: ActorPorts["clock"], loadUs: number | undefined): Engine {
  if (loadUs === undefined) return engine;
  return {
    ...delegating(engine),
    load: (model, done) => clock.alarm(() => engine.load(model, done)).set(after(clock.now(), micros(loadUs))),
  };
}

const delegating = (engine: Engine): Engine => ({
  type: engine.type,
  ...(engine.latencyOf !== undefined && { latencyOf: (...of) => engine.latencyOf!(...of) }),
  load: (model, done) => engine.load(model, done),
  unload: (name, done) => engine.unload(name, done),
  stop: (done) => engine.stop(done),
  run: (batch, done) => engine.run(batch, done),
});

function watched(
  engine: Engine,
  { actor, gpu, watcher }: { readonly actor: Incarnation; readonly gpu: number; readonly watcher: Watcher },
): Engine {
  return {
    ...delegating(engine),
    run: (batch, done) => {
      watcher.onRun(actor, gpu, batch.batchSize);
      engine.run(batch, (outcome) => {
        watcher.onRan(actor, gpu);
        done(outcome);
      });
    },
  };
}

type Write = (level: string, fields: unknown, text: string | undefined) => void;

/** Telemetry that passes log lines on, and traces nothing. */
export function logsTo(write: Write): Telemetry {
  const at =
    (level: string) =>
    (fields: unknown, text?: string): void =>
      write(level, fields, text);
  const log: Telemetry["log"] = {
    debug: () => undefined,
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: () => log,
  };
  return { log, tracer: passingTracer };
}

/** Engine faults: engines fail, and runs take longer than planned, while a plan's faults last. */
export class EngineFaults {
  last = false;
  readonly #plan: Plan;
  readonly #loaded: readonly Loaded[];
  readonly #prng: Prng;
  readonly #hanging = new Set<string>();
  /** Consecutive deaths of engines by model: with one more the model would be quarantined. */
  readonly #deaths = new Map<string, number>();
  /** Executors with an engine that hangs or is broken: each ends its process, after its run's deadline or at once. */
  readonly #ending = new Set<Incarnation>();

  constructor(plan: Plan, prng: Prng) {
    this.#plan = plan;
    this.#loaded = loadedOf(plan);
    this.#prng = prng;
  }

  /** Makes the next run of that model hang, unless engines have died under it often enough already. */
  hangNext(model: string): void {
    this.#hanging.add(model);
  }

  /** Whether a process is still to end by an engine's fault. */
  get isEnding(): boolean {
    return [...this.#ending].some(({ alive }) => alive);
  }

  /** @param factor - how many times as long as planned its runs take */
  engine({ clock }: Pick<ActorPorts, "clock">, executor: Incarnation, factor: number): Engine {
    const prng = this.#prng.fork();
    return new EmulatedEngine({
      clock,
      latency: (name, _, batchSize) => {
        const loaded = this.#loaded.find(({ model }) => model.name === name);
        if (loaded === undefined) return undefined;
        const slowdown = this.last ? 1 + prng.nextFloat() * (this.#plan.slowdownMax - 1) : 1;
        return latencyOf(loaded.model, batchSize, factor * slowdown);
      },
      fault: ({ model, batchSize }) => {
        const fault = this.last ? this.#fault(model, batchSize, prng) : undefined;
        if (fault?.kind === "hang" || (fault?.kind === "batch" && fault.fault)) this.#ending.add(executor);
        return fault;
      },
    });
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
}
