/**
 * A gateway among actors that only send heartbeats and reports, and an ingress that answers as the test wants. In
 * memory, except for HTTP and gRPC.
 */
import { type Actor, type ActorConfig, type ActorPorts, ActorRuntime } from "@tutti/actors";
import { type Delivery, type InMemoryBus, InMemoryNetwork } from "@tutti/ports/bus";
import { type DesiredModel, ModelRegistry } from "@tutti/client/registries";
import type { Clock } from "@tutti/ports/clock";
import {
  BUCKET,
  CONTENT,
  HEADER,
  type Heartbeat,
  type MessageType,
  type ModelSpec,
  type Role,
  type StatsReported,
  type Tensor,
  TuttiError,
  errorBody,
  leaseKeys,
  noModelError,
  publicNameOf,
} from "@tutti/protocol";
import { InMemoryStore } from "@tutti/ports/store";
import { type Telemetry, noTelemetry } from "@tutti/ports/telemetry";
import { type Instant, actorKey, gpuId, instant, micros, millis } from "@tutti/units";
import { FrameWriter, decodeRequest, encodeTensors, toJson } from "@tutti/wire";
import { type GatewayAddresses, type GatewayConfig, createGateway } from "../gateway.ts";

export const TOKEN = "a-token-of-the-tests-0123456789";
export const WIDTH = 4;

/** y = 2 · x, and n: the sum of x as INT64. */
export const twice: DesiredModel = {
  name: "twice",
  engine: "emulated",
  slo: micros(2_000_000),
  batchSizeMax: 8,
  patience: 1,
  inputs: [{ name: "x", type: "FP32", dims: ["batch", WIDTH] }],
  outputs: [
    { name: "y", type: "FP32", dims: ["batch", WIDTH] },
    { name: "n", type: "INT64", dims: ["batch", 1] },
  ],
  constants: [],
  axes: {},
  buckets: [{}],
};

export interface SeenRequest {
  readonly subject: string;
  readonly reply: string;
  readonly header: (name: string) => string | undefined;
  readonly inputs: readonly Tensor[];
}
export type Reaction = (request: SeenRequest) => readonly Tensor[] | TuttiError | undefined;

export const answerTwice: Reaction = ({ inputs }) => {
  const { data } = inputs[0]!;
  const x = new Float32Array(data.slice().buffer);
  const y = x.map((value) => 2 * value);
  const n = BigInt64Array.of(BigInt(Math.trunc(x.reduce((sum, value) => sum + value, 0))));
  return [
    { name: "y", type: "FP32", dims: [1, x.length], data: new Uint8Array(y.buffer) },
    { name: "n", type: "INT64", dims: [1, 1], data: new Uint8Array(n.buffer) },
  ];
};

export class GatewayScene {
  readonly seen: SeenRequest[] = [];
  readonly cancelled: string[] = [];
  react: Reaction = answerTwice;
  /** Pipelines of an ingress, which alone knows of them. */
  readonly pipelines = new Set<string>();
  /** Version that the ingress names in its answers, where versions share requests. */
  answeredBy: string | undefined;
  addresses!: GatewayAddresses;
  readonly store = new InMemoryStore();
  readonly registry = new ModelRegistry(this.store);
  readonly #network = new InMemoryNetwork();
  readonly #clock = realClock();
  readonly #runtimes: ActorRuntime[] = [];
  readonly #served = new Set<string>();
  #telemetry: Telemetry = noTelemetry;
  #gateway!: Actor;
  #lastKey = 0;

  static async open(config: Partial<GatewayConfig> = {}, telemetry: Telemetry = noTelemetry): Promise<GatewayScene> {
    const scene = new GatewayScene();
    scene.#telemetry = telemetry;
    await scene.serve(twice);
    scene.#listen();
    await scene.#openGateway(config);
    return scene;
  }

  /** Adds all roles that a request needs. */
  populate(): void {
    const gpu = { freeAt: instant(0), epoch: 1, grantSeq: 0, subCluster: "main", serving: true, type: "onnx-cpu" };
    this.join("ingress");
    this.join("batcher");
    this.join("ranker", { epoch: 3 });
    this.join("executor", { gpus: [{ ...gpu, gpu: gpuId(0) }] });
  }

  /** @param stats - returns the report of the actor */
  join(role: Role, beat: Partial<Heartbeat> = {}, stats: () => Partial<StatsReported> = () => ({})): ActorRuntime {
    const { ports, config } = this.#member(role);
    const runtime = new ActorRuntime(ports, config, {
      role,
      listensTo: [],
      beat: () => beat,
      stats: () => ({ figures: {}, ...stats() }),
    });
    runtime.open();
    this.#runtimes.push(runtime);
    return runtime;
  }

  now(): Instant {
    return this.#clock.now();
  }

  /** Publishes a message as some actor would. */
  tell<T>(subject: string, type: MessageType<T>, value: T): void {
    const { ports, config } = this.#member("teller");
    const frame = new FrameWriter(config.key);
    frame.add(type, value);
    ports.bus.publish(subject, frame.take());
  }

  async serve(model: DesiredModel, state: "ready" | "quarantined" = "ready"): Promise<ModelSpec> {
    const spec = await this.registry.publish(model);
    const put = (bucket: string, key: string, value: unknown): Promise<unknown> =>
      new Promise((resolve) => this.store.put(bucket, key, toJson(value), resolve));
    const { name, number, version } = spec;
    this.#served.add(publicNameOf(name));
    const rest = { reason: "", profiles: [[]], means: [[]], executorTypes: [] };
    await put(BUCKET.profiles, name, { name, number, version, state, ...rest });
    await put(BUCKET.leases, leaseKeys.model(number), { batcher: actorKey(9) });
    return spec;
  }

  async close(): Promise<void> {
    await new Promise<void>((resolve) => this.#gateway.drain(resolve));
    for (const runtime of this.#runtimes) await new Promise<void>((resolve) => runtime.close(resolve));
  }

  /** Resolves once `fits` returns true; checks after every turn of the event loop. */
  async until(fits: () => boolean): Promise<void> {
    while (!fits()) await this.turn();
  }

  /** A turn of the event loop, in which sockets are read too. */
  turn(): Promise<void> {
    return new Promise((resolve) => setImmediate(resolve));
  }

  #listen(): void {
    const bus = this.#network.connect({ name: "ingress-of-the-test" });
    bus.subscribe("infer.*.*", (delivery) => this.#onRequest(bus, delivery));
    bus.subscribe("cancel.*", ({ payload }) => void this.cancelled.push(new TextDecoder().decode(payload)));
  }

  #onRequest(bus: InMemoryBus, delivery: Delivery): void {
    const { inputs } = decodeRequest("binary", new Uint8Array(delivery.payload));
    const request = {
      subject: delivery.subject,
      reply: delivery.reply ?? "",
      header: (name: string) => delivery.header(name),
      inputs,
    };
    const target = delivery.subject.split(".")[1] ?? "";
    const isKnown = this.#served.has(target) || this.pipelines.has(target);
    if (isKnown) this.seen.push(request);
    const answer = isKnown ? this.react(request) : noModelError(target);
    if (answer === undefined) return;
    if (answer instanceof TuttiError)
      return void bus.publish(request.reply, toJson(errorBody(answer)), {
        headers: { [HEADER.error]: answer.message, [HEADER.errorCode]: String(answer.status) },
      });
    const wanted = delivery.header(HEADER.outputs)?.split(",");
    const outputs =
      wanted === undefined ? answer : wanted.flatMap((name) => answer.find((one) => one.name === name) ?? []);
    bus.publish(request.reply, encodeTensors(outputs), {
      headers: {
        ...{ [HEADER.contentType]: CONTENT.binary, [HEADER.queueUs]: "1500", [HEADER.batchSize]: "3" },
        ...(this.answeredBy !== undefined && { [HEADER.version]: this.answeredBy }),
      },
    });
  }

  async #openGateway(config: Partial<GatewayConfig>): Promise<void> {
    const { ports, config: own } = this.#member("gateway");
    const any = { port: 0 };
    await new Promise<void>((resolve, reject) => {
      const onListening = (where: GatewayAddresses | Error): void => {
        if (where instanceof Error) reject(where);
        else this.addresses = where;
      };
      // A stop need not wait for connections that a client keeps open.
      const drainMs = 300;
      const all = { ...own, http: any, grpc: any, metrics: any, adminToken: TOKEN, drainMs, ...config };
      this.#gateway = createGateway({ ...ports, onListening }, all, resolve);
    });
  }

  #member(name: string): { readonly ports: ActorPorts; readonly config: ActorConfig } {
    const connect = (purpose: string): InMemoryBus => this.#network.connect({ name: `${name}-${purpose}` });
    return {
      ports: {
        bus: connect("control"),
        bulk: connect("bulk"),
        store: this.store,
        clock: this.#clock,
        telemetry: this.#telemetry,
        randomBytes: (count) => new Uint8Array(count).fill(7),
      },
      config: {
        key: actorKey(++this.#lastKey),
        cluster: "main",
        host: "here",
        pid: 1,
        heartbeatEvery: millis(50),
        peerTimeout: millis(1_000),
      },
    };
  }
}

function realClock(): Clock {
  const now = (): Instant => instant(Math.round((performance.timeOrigin + performance.now()) * 1_000));
  return {
    now,
    alarm(fire) {
      let timer: NodeJS.Timeout | undefined;
      const clear = (): void => clearTimeout(timer);
      return {
        set(at) {
          clear();
          timer = setTimeout(fire, Math.max(0, (at - now()) / 1_000));
        },
        clear,
      };
    },
    every(period, run) {
      const timer = setInterval(run, period / 1_000);
      return { stop: () => clearInterval(timer) };
    },
    endOfTurn: (run) => queueMicrotask(run),
    lateness: () => micros(0),
  };
}
