import type { Server as TlsServer } from "node:https";
import {
  type Actor,
  type ActorConfig,
  type ActorPorts,
  Catalog,
  type CatalogModel,
  RouteWatcher,
  ActorRuntime,
} from "@tutti/actors";
import { presentationOf } from "@tutti/onnx-tools";
import {
  type Heartbeat,
  type Role,
  ScalingAdvised,
  StatsReported,
  publicNameOf,
  stateOf,
  versionName,
} from "@tutti/protocol";
import type { Store } from "@tutti/ports/store";
import { between } from "@tutti/units";
import { FrameReader } from "@tutti/wire";
import { Registry } from "prom-client";
import { Access, type AccessConfig } from "./auth/access.ts";
import { GatewayTls, type TlsFiles } from "./auth/tls-pair.ts";
import { Console } from "./console/console.ts";
import type { OperatorPorts } from "@tutti/console/server";
import { InferenceService } from "./inference-service.ts";
import { GrpcFront } from "./grpc/grpc-front.ts";
import { missingParts, unservedModels } from "./health.ts";
import { BodyReader } from "./http/body-reader.ts";
import { HttpFront } from "./http/http-front.ts";
import { pageGuard } from "./http/page-guard.ts";
import { LOOPBACK, type PortWish, isLoopback, listen, urlOf } from "./listening.ts";
import { MediaBodies } from "./media/media-bodies.ts";
import { MediaInference } from "./media/media-inference.ts";
import { ClusterFigures } from "./metrics/cluster-figures.ts";
import { clusterMetrics } from "./metrics/cluster-metrics.ts";
import { MetricsFront } from "./metrics/metrics-front.ts";
import { OwnMetrics } from "./metrics/own-metrics.ts";
import { Takeovers } from "./metrics/takeovers.ts";
import { AppClients } from "./oip/app-clients.ts";
import { Inference, type RequestNoted } from "./oip/inference.ts";
import { LongBodies } from "./oip/long-bodies.ts";
import { modelStatistics, pipelineStatistics } from "./oip/model-statistics.ts";
import { ProtocolInference } from "./oip/protocol-inference.ts";
import { Repository } from "./oip/repository.ts";
import { Sequences } from "./oip/sequences.ts";
import { OwnRequests } from "./own-totals.ts";
import { ADVICE_LASTS, scalingAnswer } from "./scaling.ts";
import { SharedMemory } from "./shared-memory/shared-memory.ts";

export interface GatewayConfig extends ActorConfig {
  /** Models that clients will ask for. Until each is served or has failed, the cluster is not ready. Default: none. */
  readonly awaitModels?: readonly string[];
  /** Default: loopback. */
  readonly httpHost?: string;
  readonly http: PortWish;
  readonly grpc: PortWish;
  readonly metrics: PortWish;
  /** Default: loopback. */
  readonly metricsHost?: string;
  /** Host names that browsers may use, beside localhost and addresses. Default: none on loopback, any elsewhere. */
  readonly allowedHosts?: readonly string[];
  /** Whether clients may pass tensors in /dev/shm; on loopback only. Default: they may not. */
  readonly systemSharedMemory?: boolean;
  /** Time that a stop waits for requests in flight; open streams end then too. Default: 5 s. */
  readonly drainMs?: number;
  /** Certificate and key of HTTP and gRPC; without them they speak plain text. */
  readonly tls?: TlsFiles | undefined;
  /** Keys of the clients over HTTP and gRPC. Without it any client may ask in any application's name. */
  readonly access?: AccessConfig | undefined;
  /** Token that authorises changes of models and restarts of actors. Without it and `access` they are refused. */
  readonly adminToken?: string | undefined;
  /** Address of a Jaeger, from which the console reads traces. */
  readonly traceQuery?: string | undefined;
  /** Folder of the console's built page; default: where the set-up puts it. */
  readonly consoleFolder?: string;
}

export interface GatewayPorts extends ActorPorts {
  /** Called with the addresses once it listens, or with the reason why it can't. */
  readonly onListening: (addresses: GatewayAddresses | Error) => void;
  /** A store with the rights of an operator, for the repository; default: the gateway's own store. */
  readonly repositoryStore?: Store;
  /** A bus and store with the same rights, for restarts from the console; without them there are none. */
  readonly operator?: OperatorPorts;
}

/** Less than the time after which its supervisor kills it. */
const DRAIN_MS = 5_000;

/** Addresses of the gateway's servers. */
export interface GatewayAddresses {
  readonly http: string;
  /** `host:port`, as gRPC's clients take it. */
  readonly grpc: string;
  readonly metrics: string;
}

/**
 * The front door of a cluster. It serves the Open Inference Protocol over HTTP and gRPC, metrics, and the advised
 * number of accelerators for autoscalers (scaling.ts). By default it listens on loopback only, where any client may ask
 * in the name of any application; beyond, keys identify the clients.
 */
export function createGateway(ports: GatewayPorts, config: GatewayConfig, ready: () => void): Actor {
  const gateway = new Gateway(ports, config);
  gateway.open(ready);
  return {
    ...{ role: "gateway", key: config.key, drain: (done) => gateway.drain(done) },
    missing: () => gateway.missing(),
  };
}

/** Statuses that end a silence; after the last two the connection's own state counts. */
const SILENCE_ENDS: ReadonlySet<string> = new Set(["heard", "reconnected", "disconnected"]);

class Gateway {
  readonly #ports: GatewayPorts;
  readonly #config: GatewayConfig;
  readonly #runtime: ActorRuntime;
  readonly #catalog: Catalog;
  readonly #routes: RouteWatcher;
  readonly #clients: AppClients;
  readonly #longBodies = new LongBodies();
  readonly #mediaBodies = new MediaBodies();
  readonly #figures: ClusterFigures;
  readonly #own = new OwnRequests();
  readonly #takeovers = new Takeovers();
  readonly #bodies = new BodyReader();
  readonly #ownMetrics: OwnMetrics;
  readonly #access: Access | undefined;
  readonly #tls: GatewayTls | undefined;
  readonly #memory: SharedMemory;
  readonly #inferenceService: InferenceService;
  readonly #console: Console;
  readonly #http: HttpFront;
  readonly #grpc: GrpcFront;
  readonly #metrics: MetricsFront;
  readonly #listening: { stop(): void }[] = [];
  #advised: ScalingAdvised | undefined;
  #wasServed = false;
  /** The connection stands, and the server answers nothing. */
  #isSilent = false;

  constructor(ports: GatewayPorts, config: GatewayConfig) {
    this.#ports = ports;
    this.#config = config;
    this.#figures = new ClusterFigures(ports.clock.now());
    this.#runtime = new ActorRuntime(ports, config, {
      role: "gateway",
      listensTo: ["ingress", "batcher", "ranker", "executor"],
      stats: () => ({ figures: this.#ownFigures() }),
      onBeat: (peer) => this.#takeovers.hear(peer),
    });
    this.#catalog = new Catalog(ports.store, this.#runtime.log, {
      onChange: ({ spec }) => {
        if (presentationOf(spec.presentation).input !== undefined) this.#mediaBodies.warm();
      },
      onGone: ({ spec }) => this.#forget(spec.name),
    });
    this.#routes = new RouteWatcher(ports.store, this.#runtime.log);
    this.#clients = new AppClients(ports.bulk, ports.telemetry, Buffer.from(ports.randomBytes(12)).toString("hex"));
    const { log } = this.#runtime;
    this.#access = config.access && new Access(config.access, config.adminToken, log);
    this.#tls = config.tls && new GatewayTls(config.tls, log);
    const { httpHost = LOOPBACK, metricsHost = LOOPBACK, allowedHosts = [] } = config;
    this.#memory = new SharedMemory({ isOpen: config.systemSharedMemory === true && isLoopback(httpHost) });
    this.#inferenceService = this.#openDoor();
    this.#console = this.#openConsole();
    const guard = pageGuard({ listensOn: httpHost, allowedHosts });
    this.#http = new HttpFront(this.#inferenceService, this.#bodies, this.#console.api, {
      guard,
      tls: this.#tls?.pair,
    });
    this.#tls?.onRenewed((pair) => (this.#http.server as TlsServer).setSecureContext(pair));
    this.#grpc = new GrpcFront(this.#inferenceService, this.#bodies, this.#tls?.credentials);
    const registry = new Registry();
    this.#ownMetrics = this.#measure(registry);
    this.#metrics = new MetricsFront(
      registry,
      this.#inferenceService,
      pageGuard({ listensOn: metricsHost, allowedHosts }),
    );
  }

  open(ready: () => void): void {
    const { bus } = this.#ports;
    const { subjects } = this.#runtime;
    const reader = new FrameReader()
      .on(ScalingAdvised, (told) => {
        if (ScalingAdvised.accepts(told)) this.#advised = told;
        else this.#runtime.faults++;
      })
      .on(StatsReported, (stats) => {
        const isHeard = this.#figures.hear(stats, this.#ports.clock.now()) && this.#console.hear(stats);
        if (!isHeard) this.#runtime.faults++;
      });
    for (const subject of [subjects.advice, subjects.stats("*")])
      this.#listening.push(
        bus.subscribe(subject, ({ payload }) => {
          if (reader.read(payload) !== undefined) this.#runtime.faults++;
        }),
      );
    this.#listening.push(
      bus.onStatus(({ kind }) => {
        this.#isSilent = kind === "silent" || (this.#isSilent && !SILENCE_ENDS.has(kind));
      }),
    );
    this.#runtime.open();
    this.#routes.open(() => this.#catalog.open(() => void this.#listen(ready)));
  }

  drain(done: () => void): void {
    for (const subscription of this.#listening) subscription.stop();
    const { server } = this.#http;
    this.#console.api.close(); // Its streams would never end by themselves.
    // Clients that wait for an answer get it; idle connections end.
    const closed = [
      new Promise<void>((resolve) => server.close(() => resolve())),
      new Promise<void>((resolve) => this.#metrics.server.close(() => resolve())),
      new Promise<void>((resolve) => this.#grpc.drain(resolve)),
    ];
    server.closeIdleConnections();
    const late = setTimeout(() => {
      server.closeAllConnections();
      this.#grpc.close();
    }, this.#config.drainMs ?? DRAIN_MS);
    this.#metrics.server.closeAllConnections();
    void Promise.all(closed).then(() => {
      clearTimeout(late);
      this.#grpc.close();
      this.#access?.stop();
      this.#tls?.stop();
      this.#routes.close();
      this.#catalog.close();
      this.#clients.close();
      void this.#longBodies.close();
      void this.#mediaBodies.close();
      void this.#memory.close();
      this.#runtime.close(done);
    });
  }

  #ownFigures(): Record<string, number> {
    const { inFlight } = this.#inferenceService.inference;
    return { asked: this.#http.asked + this.#grpc.asked, inFlight, apps: this.#clients.size };
  }

  async #listen(ready: () => void): Promise<void> {
    const host = this.#config.httpHost ?? LOOPBACK;
    try {
      const scheme = this.#tls === undefined ? "http" : "https";
      const http = urlOf(host, await listen(this.#http.server, host, this.#config.http), scheme);
      const grpc = await this.#grpc.listen(host, this.#config.grpc);
      const metricsHost = this.#config.metricsHost ?? LOOPBACK;
      const metrics = urlOf(metricsHost, await listen(this.#metrics.server, metricsHost, this.#config.metrics));
      if (this.#access !== undefined && this.#tls === undefined && !isLoopback(host))
        this.#runtime.log.warn({ host }, "keys come in plain text, unless a proxy speaks TLS: --http-tls-cert");
      this.#ports.onListening({ http, grpc, metrics });
    } catch (error) {
      return this.#ports.onListening(error instanceof Error ? error : new Error(String(error)));
    }
    ready();
  }

  #openDoor(): InferenceService {
    const { store, repositoryStore, clock } = this.#ports;
    const modelOf = (name: string, version = this.#defaultOf(name)): CatalogModel | undefined => {
      const first = this.#catalog.target(name);
      if (version === undefined || first?.spec.version === version) return first;
      return this.#catalog.target(versionName(name, version));
    };
    const inference = new Inference({
      modelOf,
      pipelines: () => this.#figures.pipelines(clock.now()),
      clients: this.#clients,
      note: (noted) => this.#note(noted),
      tracer: this.#ports.telemetry.tracer,
      local: this.#ports.local,
    });
    const media = new MediaInference(inference, this.#mediaBodies);
    return new InferenceService({
      log: this.#runtime.log,
      telemetry: this.#ports.telemetry,
      modelOf,
      versionsOf: (name) => this.#versionsOf(name),
      models: () => [...this.#catalog.targets()].sort((a, b) => (a.spec.name < b.spec.name ? -1 : 1)),
      unloaded: () => this.#catalog.unloaded(),
      missing: () => this.missing(),
      unserved: () => this.#unserved(),
      scaling: (path) => scalingAnswer(path, this.#advised, clock.now()),
      pipelines: () => this.#figures.pipelines(clock.now()),
      pipelineStatistics: (one) =>
        pipelineStatistics(one, this.#figures.parts.ofPipeline(one.name), this.#own.of(one.name)),
      statistics: ({ spec }) => modelStatistics(spec, this.#figures.models.get(spec.name), this.#own.of(spec.name)),
      inference,
      protocol: new ProtocolInference({
        ...{ modelOf, inference, media, access: this.#access, memory: this.#memory, bodies: this.#bodies },
        sequences: new Sequences(),
      }),
      memory: this.#memory,
      longBodies: this.#longBodies,
      media,
      repository: new Repository(repositoryStore ?? store, this.#runtime.log),
      access: this.#access,
      token: this.#config.adminToken,
    });
  }

  missing(): string[] {
    const { bus } = this.#ports;
    const peersOf = (role: Role): Iterable<Heartbeat> => this.#runtime.registry.ofRole(role);
    return missingParts(bus.connected && !this.#isSilent, peersOf, (peer) => this.#runtime.isNear(peer));
  }

  /**
   * Models that the cluster is not ready without. Once all were served the list stays empty, so that a model loaded
   * later does not make the gateway unready.
   */
  #unserved(): string[] {
    if (this.#wasServed) return [];
    const unserved = unservedModels(this.#catalog.targets(), this.#config.awaitModels ?? []);
    this.#wasServed = unserved.length === 0;
    return unserved;
  }

  #defaultOf(name: string): string | undefined {
    const route = this.#routes.get(name);
    return route === undefined ? undefined : stateOf(route).default;
  }

  /** Versions of a model, the one under the model's own name first. */
  #versionsOf(name: string): string[] {
    const versions = [...this.#catalog.targets()].filter(({ spec }) => publicNameOf(spec.name) === name);
    return versions.sort((a, b) => a.spec.name.length - b.spec.name.length).map(({ spec }) => spec.version);
  }

  #openConsole(): Console {
    const { bus, store, clock, operator } = this.#ports;
    const { cluster, adminToken, consoleFolder, traceQuery } = this.#config;
    return new Console({
      ...{ bus, store, cluster, operator },
      log: this.#runtime.log,
      now: () => clock.now(),
      models: () => this.#inferenceService.models(),
      missing: () => this.#inferenceService.missing(),
      batchers: () => this.#figures.ofRole("batcher", clock.now()),
      bodies: this.#bodies,
      mayRead: async (authorization) => {
        if (this.#access !== undefined) await this.#inferenceService.administrator(authorization);
      },
      administer: (act, run) => this.#inferenceService.administer(act, run),
      authorisedBy: this.#access !== undefined ? "key" : adminToken === undefined ? undefined : "token",
      folder: consoleFolder,
      traceQuery,
    });
  }

  #note(noted: RequestNoted): void {
    this.#own.note(noted, this.#ports.clock.now() / 1_000);
    this.#ownMetrics.note(noted);
  }

  #measure(registry: Registry): OwnMetrics {
    const { clock } = this.#ports;
    const figures = this.#figures;
    clusterMetrics(registry, {
      models: () => [...this.#catalog.models()], // as actors name them: a family by its own name
      totalsOf: (model) => figures.models.get(model),
      jobsOf: (model) => figures.jobs.get(model),
      parts: (kind) => figures.parts.ofKind(kind),
      gpus: () => figures.gpus,
      routes: () => [...this.#routes.known()].map(({ route }) => route),
      living: () => figures.living(clock.now()),
      peersOf: (role) => this.#runtime.registry.ofRole(role),
      takeovers: () => this.#takeovers.counts,
      advised: () =>
        this.#advised !== undefined && between(this.#advised.at, clock.now()) <= ADVICE_LASTS
          ? this.#advised
          : undefined,
    });
    return new OwnMetrics(registry, {
      inFlight: () => this.#inferenceService.inference.inFlight,
      apps: () => this.#clients.size,
      bodyBytes: () => this.#bodies.bytes,
    });
  }

  #forget(model: string): void {
    this.#figures.forget(model);
    this.#own.forget(model);
  }
}
