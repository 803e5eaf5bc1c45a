/** A planner among fake actors that send the messages of real ones: for tests. */
import { InMemoryNetwork } from "@tutti/ports/bus";
import { VirtualClock } from "@tutti/ports/clock";
import {
  BUCKET,
  ExecutorInventory,
  type ModelSpec,
  type ModelStatus,
  ModelsWanted,
  PLACEMENT_KEY,
  type PlanReport,
  type Placement,
  REPORT_KEY,
  type Role,
  ScalingAdvised,
  isPlacement,
  isPlanReport,
} from "@tutti/protocol";
import { InMemoryStore } from "@tutti/ports/store";
import { noTelemetry } from "@tutti/ports/telemetry";
import {
  type ActorKey,
  type Micros,
  actorKey,
  after,
  gpuId,
  instant,
  micros,
  millis,
  seconds,
  threadId,
} from "@tutti/units";
import { FrameReader, fromJson, toJson } from "@tutti/wire";
import type { Actor, ActorPorts } from "../../runtime/ports.ts";
import { ActorRuntime } from "../../runtime/actor-runtime.ts";
import { type PlannerConfig, createPlanner } from "../planner.ts";

interface FakeExecutor {
  runtime: ActorRuntime;
  key: ActorKey;
  readonly gpu: number;
  subCluster: string;
  loaded: Set<number>;
  /** Share of its time in which it is busy. */
  busy: number;
  busyUs: number;
}

/** More sub-clusters than any test has: every one with a leader is used, whatever it costs. */
const ALL = 99;

export class PlannerScene {
  readonly clock = new VirtualClock({ startAt: instant(1_000_000) });
  readonly store = new InMemoryStore({ deliver: (run) => this.#later(millis(1), run) });
  readonly advised: ScalingAdvised[] = [];
  readonly executors = new Map<number, FakeExecutor>();
  /** By model: requests per second, and how many of 100 are refused. */
  readonly rates = new Map<number, { rate: number; badPercent: number }>();
  /** Bytes that runs of a model take besides its weights. */
  readonly dynamic = new Map<number, number>();
  /** Memory bound of each executor, in bytes. */
  capacity = Number.MAX_SAFE_INTEGER;
  /** Time that an executor takes to load the models that it lacks. */
  loading: Micros = millis(300);
  placements: Placement[] = [];
  /** Placements that were written and that no reader accepts. */
  unreadable = 0;
  report: PlanReport | undefined;
  readonly #network = new InMemoryNetwork({
    deliver: (run) => this.#later(millis(1), run),
    later: (run) => this.#later(micros(10), run),
  });
  readonly #sizes = new Map<number, number>();
  #wanting: ActorRuntime | undefined;
  #keys = 1;

  constructor() {
    this.store.watch(BUCKET.plan, "", {
      onEntry: ({ key, value }) => {
        const read = fromJson(value);
        if (key === PLACEMENT_KEY && isPlacement(read)) this.#onPlacement(read);
        else if (key === PLACEMENT_KEY) this.unreadable++;
        if (key === REPORT_KEY && isPlanReport(read)) this.report = read;
      },
      onDelete: () => undefined,
      onReady: () => undefined,
      onFailure: () => undefined,
    });
    const reader = new FrameReader().on(ScalingAdvised, (advised) => void this.advised.push(advised));
    this.#network
      .connect({ name: "listener" })
      .subscribe("tutti.v1.c.advice", ({ payload }) => void reader.read(payload));
  }

  get placement(): Placement | undefined {
    return this.placements.at(-1);
  }
  /** Sub-clusters by model: `a`, or `a>b` while it moves. */
  get models(): Record<number, string> {
    const text = ({ subCluster, next }: Placement["models"][number]): string =>
      next === undefined ? subCluster : `${subCluster}>${next}`;
    return Object.fromEntries((this.placement?.models ?? []).map((model) => [model.number, text(model)]));
  }
  /** Number of accelerators by sub-cluster. */
  get gpus(): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const { subCluster } of this.placement?.gpus ?? []) counts[subCluster] = (counts[subCluster] ?? 0) + 1;
    return counts;
  }

  run(duration: Micros): void {
    this.clock.advanceTo(after(this.clock.now(), duration));
  }

  planner(config: Partial<PlannerConfig> = {}): { readonly actor: Actor; kill(): void } {
    const ports = this.#ports();
    const usual = { ...this.#config(), epoch: seconds(6), subClustersMin: ALL };
    const actor = createPlanner(ports, { ...usual, ...config }, () => undefined);
    return { actor, kill: () => void [ports.bus, ports.bulk].map((bus) => bus.close(() => undefined)) };
  }

  /** A leader, which is busy for a share of its time. */
  ranker(subCluster: string): { busy: number | undefined; kill(): void } {
    let busyUs = 0;
    const ranker = { busy: undefined as number | undefined, kill: () => undefined as void };
    const { kill } = this.#runtime("ranker", () => ({
      beat: { epoch: 1, subCluster },
      ...(ranker.busy !== undefined && { figures: { loopBusyUs: (busyUs += 1e6 * ranker.busy) } }),
    }));
    return Object.assign(ranker, { kill });
  }

  /** An ingress that reports the loads of all models once a second. */
  ingress(): void {
    const totals = new Map<number, { offered: number; ok: number; refused: number }>();
    this.#runtime("ingress", () => ({
      perThread: [...this.rates].map(([number, { rate, badPercent }]) => {
        const total = totals.get(number) ?? { offered: 0, ok: 0, refused: 0 };
        totals.set(number, total);
        total.offered += rate;
        total.ok += (rate * (100 - badPercent)) / 100;
        total.refused += (rate * badPercent) / 100;
        const figures = { offered: total.offered, ok: total.ok, late: 0, "refused.TUTTI_OVERLOADED": total.refused };
        return { thread: threadId(number, 0), name: `m${number}`, figures };
      }),
    }));
  }

  executor(gpu: number, subCluster = "main"): void {
    const fake: FakeExecutor = {
      ...{ gpu, subCluster, loaded: new Set<number>(), busy: 0, busyUs: 0 },
      runtime: undefined as unknown as ActorRuntime,
      key: actorKey(this.#keys),
    };
    const state = { gpu: gpuId(gpu), freeAt: instant(0), epoch: 1, grantSeq: 0, serving: true, type: "fake" };
    const { runtime } = this.#runtime("executor", () => {
      return {
        beat: { gpus: [{ ...state, subCluster: fake.subCluster }] },
        perGpu: [{ gpu: gpuId(gpu), figures: { busyUs: (fake.busyUs += 1e6 * fake.busy) } }],
      };
    });
    fake.runtime = runtime;
    this.executors.set(gpu, fake);
    this.clock.every(seconds(1), () => this.#tell(fake));
    this.#follow(fake, this.placement);
    this.#tell(fake);
  }
  killExecutor(gpu: number): void {
    this.executors.get(gpu)?.runtime.close(() => undefined);
    this.executors.delete(gpu);
  }

  /** @param more - `idleS`: it may be parked after so many seconds, and is ready */
  model(
    number: number,
    more: { readonly bytes?: number; readonly latencyMs?: number; readonly idleS?: number } = {},
  ): void {
    const { bytes = 1e6, latencyMs = 10, idleS } = more;
    this.#sizes.set(number, bytes);
    const spec: ModelSpec = {
      ...{
        name: `m${number}`,
        number,
        version: "1",
        engine: "emulated",
        slo: millis(100),
        batchSizeMax: 1,
        patience: 1,
      },
      ...{ inputs: [{ name: "x", type: "FP32", dims: ["batch", 1] }], outputs: [], constants: [], axes: {} },
      buckets: [{}],
      file: { object: `m${number}`, sha256: "", bytes },
      profile: [[{ batchSize: 1, latency: millis(latencyMs) }]],
      ...(idleS !== undefined && { scaleToZero: { idle: seconds(idleS), coldStart: seconds(30) } }),
    };
    this.store.put(BUCKET.models, spec.name, toJson(spec), () => undefined);
    if (idleS === undefined) return;
    const { name, version, profile = [] } = spec;
    const known = { reason: "", profiles: profile, means: profile, executorTypes: ["fake"] };
    this.status({ ...known, name, number, version, state: "ready" });
  }
  status(status: ModelStatus): void {
    this.store.put(BUCKET.profiles, status.name, toJson(status), () => undefined);
  }
  /** An ingress holds requests for these models. */
  want(numbers: readonly number[]): void {
    this.#wanting ??= this.#runtime("ingress", () => ({})).runtime;
    this.#wanting.broadcast("planner", ModelsWanted, { numbers });
  }
  unload(number: number): void {
    this.store.delete(BUCKET.models, `m${number}`, () => undefined);
  }

  #onPlacement(placement: Placement): void {
    this.placements.push(placement);
    for (const fake of this.executors.values()) this.#follow(fake, placement);
  }

  /** PL1, PL4: loads missing models, then joins its sub-cluster and unloads the others. */
  #follow(fake: FakeExecutor, placement: Placement | undefined): void {
    const place = placement?.gpus.find(({ gpu }) => gpu === fake.gpu)?.subCluster;
    if (placement === undefined || place === undefined) return;
    this.#later(this.loading, () => {
      if (this.executors.get(fake.gpu) !== fake || this.placement !== placement) return;
      const { models, parked = [] } = placement;
      const own = [
        ...models.filter(({ subCluster, next }) => subCluster === place || next === place),
        ...parked.filter(({ next }) => next === place),
      ];
      fake.loaded = new Set(own.map(({ number }) => number));
      fake.subCluster = place;
      this.#tell(fake);
    });
  }

  #tell(fake: FakeExecutor): void {
    if (this.executors.get(fake.gpu) !== fake) return;
    const models = [...fake.loaded].map((number) => ({
      number,
      version: "1",
      memoryBytes: this.#sizes.get(number) ?? 0,
      ...(this.dynamic.has(number) && { dynamicBytes: this.dynamic.get(number)! }),
    }));
    fake.runtime.broadcast("planner", ExecutorInventory, {
      executor: fake.key,
      gpus: [gpuId(fake.gpu)],
      type: "fake",
      subCluster: fake.subCluster,
      memoryBytes: models.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0),
      memoryBytesMax: this.capacity,
      models,
    });
  }

  #runtime(
    role: Role,
    say: () => {
      readonly beat?: object;
      readonly figures?: Readonly<Record<string, number>>;
      readonly perThread?: object;
      readonly perGpu?: object;
    },
  ): { readonly runtime: ActorRuntime; kill(): void } {
    let said: ReturnType<typeof say> = {};
    const ports = this.#ports();
    const runtime = new ActorRuntime(ports, this.#config(), {
      ...{ role, listensTo: [] },
      beat: () => (said = Object.keys(said).length === 0 ? say() : said).beat ?? {},
      stats: () => {
        said = say();
        const { perThread, perGpu, figures = {} } = said;
        return {
          figures,
          ...(perThread !== undefined && { perThread }),
          ...(perGpu !== undefined && { perGpu }),
        } as never;
      },
    });
    runtime.open();
    return { runtime, kill: () => void [ports.bus, ports.bulk].map((bus) => bus.close(() => undefined)) };
  }
  #ports(): ActorPorts {
    const name = String(this.#keys);
    const [bus, bulk] = [this.#network.connect({ name }), this.#network.connect({ name: `${name}-bulk` })];
    const randomBytes = (): Uint8Array => new Uint8Array(0);
    return { bus, bulk, store: this.store, clock: this.clock, telemetry: noTelemetry, randomBytes };
  }
  #config(): Omit<PlannerConfig, "epoch"> {
    const key = actorKey(this.#keys++);
    return { key, cluster: "c", host: "h", pid: 1, heartbeatEvery: millis(50), peerTimeout: millis(200) };
  }
  #later(delay: Micros, run: () => void): void {
    this.clock.alarm(run).set(after(this.clock.now(), delay));
  }
}
