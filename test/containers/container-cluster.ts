/**
 * A whole cluster of containers: three NATS servers, two nodes and two executors from the image, on a network of their
 * own. Everything outside reaches it by mapped ports.
 */
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { desiredModel } from "@tutti/admin/models";
import { type NatsConnection, connectNats, natsConfig } from "@tutti/bus-nats";
import { ModelRegistry } from "@tutti/client/registries";
import { BUCKET, Heartbeat, subjectsOf } from "@tutti/protocol";
import { FrameReader } from "@tutti/wire";
import {
  GenericContainer,
  ImageName,
  Network,
  type StartedNetwork,
  type StartedTestContainer,
  Wait,
  getContainerRuntimeClient,
} from "testcontainers";
import { type Gateway, MODELS, WIDTH, echoModelBytes } from "../e2e/chaos/models.ts";
import { freePorts } from "../fixtures/configured-nats.ts";
import { OURS, removeLeftovers } from "../fixtures/nats-container.ts";
import { wholeStream } from "../fixtures/nats-cluster.ts";

const IMAGE = "tutti:test";
export const NATS = ["nats-0", "nats-1", "nats-2"] as const;
export const NODES = ["node-0", "node-1"] as const;
export const EXECUTORS = ["executor-0", "executor-1"] as const;
export type Name = (typeof NATS)[number] | (typeof NODES)[number] | (typeof EXECUTORS)[number];

/** Room for a machine that does other things as well: what is lost shows, and how long things take does not. */
const SLO = "2s";
const INSIDE = NATS.map((name) => `nats://${name}:4222`).join(",");
/** Long enough for a container to become healthy on two busy cores. */
const HEALTHY_MS = 60_000;

/** As Kubernetes' restricted profile runs it: nobody, nothing writable but /tmp, no capability. */
class TuttiContainer extends GenericContainer {
  constructor(command: readonly string[]) {
    super(IMAGE);
    this.hostConfig.ReadonlyRootfs = true;
    this.withCommand([...command])
      .withTmpFs({ "/tmp": "rw,mode=1777" })
      .withDroppedCapabilities("ALL")
      .withSecurityOpt("no-new-privileges:true")
      .withLabels(OURS)
      .withEnvironment({ TUTTI_NATS: INSIDE })
      .withStartupTimeout(HEALTHY_MS)
      .withWaitStrategy(Wait.forHealthCheck());
  }
}

/** Builds both images from this clone, as `npm run image` does. */
export async function buildImages(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "tutti-images-"));
  const script = join(import.meta.dirname, "../../infra/image/main.ts");
  try {
    await promisify(execFile)(process.execPath, [script, "--tag", IMAGE, "--context", folder]);
  } finally {
    await rm(folder, { recursive: true });
  }
}

export class ContainerCluster {
  /** Connection from outside. */
  readonly nats: NatsConnection;
  readonly #network: StartedNetwork;
  readonly #containers: ReadonlyMap<Name, StartedTestContainer>;
  readonly #hearers = new Set<(beat: Heartbeat) => void>();

  private constructor(
    network: StartedNetwork,
    containers: ReadonlyMap<Name, StartedTestContainer>,
    nats: NatsConnection,
  ) {
    this.#network = network;
    this.#containers = containers;
    this.nats = nats;
    const reader = new FrameReader().on(Heartbeat, (beat) => {
      for (const hear of this.#hearers) hear(beat);
    });
    nats.control.subscribe(subjectsOf("main").beat("*"), ({ payload }) => void reader.read(payload));
  }

  /** Resolves when the models are served. */
  static async start(): Promise<ContainerCluster> {
    await removeLeftovers();
    const network = await new Network().start();
    const containers = new Map<Name, StartedTestContainer>();
    const ports = await freePorts(NATS.length + NODES.length);
    try {
      const add = async (name: Name, container: GenericContainer): Promise<void> => {
        const started = container.withNetwork(network).withNetworkAliases(name).withHostname(name).start();
        containers.set(name, await started);
      };
      // Ports of the host are fixed: mapped ones change with every restart.
      await Promise.all(NATS.map((name, i) => add(name, natsContainer(name, ports[i]!))));
      await Promise.all([
        ...NODES.map((name, i) => add(name, nodeContainer(name, ports[NATS.length + i]!))),
        ...EXECUTORS.map((name, i) => add(name, new TuttiContainer(["run", "executor", "--gpus", `${i}`]))),
      ]);
      const nats = await connectNats({
        servers: ports.slice(0, NATS.length).map((port) => `nats://127.0.0.1:${port}`),
        name: "outside",
        ignoreClusterUpdates: true, // the servers name each other by addresses of their own network
      });
      await loadModels(nats);
      return new ContainerCluster(network, containers, nats);
    } catch (error) {
      await removeAll(network, containers);
      throw error;
    }
  }

  container(name: Name): StartedTestContainer {
    return this.#containers.get(name)!;
  }

  async imageBytes(): Promise<number> {
    const { image } = await getContainerRuntimeClient();
    return (await image.inspect(ImageName.fromString(IMAGE))).Size;
  }

  /** Gateways, rotated to begin with `first`. */
  gateways(first: number): readonly Gateway[] {
    return NODES.map((_, i) => {
      const name = NODES[(first + i) % NODES.length]!;
      return { name, url: `http://127.0.0.1:${this.container(name).getMappedPort(8000)}` };
    });
  }

  /** The NATS server that leads the stream of leases: while it is away, none can be written. */
  async streamLeader(): Promise<(typeof NATS)[number]> {
    const { cluster } = await wholeStream(this.nats.control, BUCKET.leases);
    return NATS.find((name) => name === cluster.leader)!;
  }

  /** Resolves once all three NATS servers have all that is stored. */
  async whole(): Promise<void> {
    for (const bucket of [BUCKET.leases, BUCKET.models, BUCKET.profiles, BUCKET.plan])
      await wholeStream(this.nats.control, bucket);
  }

  /** Resolves when a container serves as the cluster sees it: its batcher follows, or its accelerator serves. */
  serves(name: Name): Promise<void> {
    return new Promise((resolve) => {
      const hear = ({ host, role, leaving, gpus = [] }: Heartbeat): void => {
        if (host !== name || leaving === true) return;
        if (role !== "ingress" && !gpus.some(({ serving }) => serving)) return;
        this.#hearers.delete(hear);
        resolve();
      };
      this.#hearers.add(hear);
    });
  }

  async kill(name: Name): Promise<void> {
    await (await dockerOf(this.container(name))).kill();
  }
  async start(name: Name): Promise<void> {
    await (await dockerOf(this.container(name))).start();
  }
  /** @returns the exit code, after SIGTERM */
  async stopOne(name: Name): Promise<number> {
    const docker = await dockerOf(this.container(name));
    await docker.stop({ t: 15 });
    return (await docker.inspect()).State.ExitCode;
  }
  async pause(name: Name): Promise<void> {
    await (await dockerOf(this.container(name))).pause();
  }
  async unpause(name: Name): Promise<void> {
    await (await dockerOf(this.container(name))).unpause();
  }
  async disconnect(name: Name): Promise<void> {
    await (await this.#dockerNetwork()).disconnect({ Container: this.container(name).getId() });
  }
  /** It may come back under another address, as a pod does. */
  async reconnect(name: Name): Promise<void> {
    const EndpointConfig = { Aliases: [name] };
    await (await this.#dockerNetwork()).connect({ Container: this.container(name).getId(), EndpointConfig });
  }

  async stop(): Promise<void> {
    await this.nats.close();
    await removeAll(this.#network, this.#containers);
  }

  async #dockerNetwork() {
    return (await getContainerRuntimeClient()).network.getById(this.#network.getId());
  }
}

async function loadModels({ store }: NatsConnection): Promise<void> {
  const registry = new ModelRegistry(store);
  const bytes = echoModelBytes(WIDTH);
  for (const name of MODELS) {
    const config = { serving: { name, slo: SLO, max_batch_size: 8 }, latencies: undefined };
    const spec = await registry.publish(desiredModel(bytes, config), { model: bytes });
    await registry.waitUntilServed(spec, { timeoutMs: HEALTHY_MS });
  }
}

async function removeAll(network: StartedNetwork, containers: ReadonlyMap<Name, StartedTestContainer>): Promise<void> {
  await Promise.all([...containers.values()].map((container) => container.stop({ timeout: 0 })));
  await network.stop();
}

const dockerOf = async (container: StartedTestContainer) =>
  (await getContainerRuntimeClient()).container.getById(container.getId());

function natsContainer(name: (typeof NATS)[number], host: number): GenericContainer {
  const routes = NATS.map((other) => `${other}:6222`);
  const config = natsConfig({
    ...{ host: "0.0.0.0", port: 4222, storeDir: "/data", serverName: name },
    cluster: { name: "test", host: "0.0.0.0", port: 6222, routes, password: "of these three" },
  });
  return new GenericContainer(`${IMAGE}-nats`)
    .withLabels(OURS)
    .withExposedPorts({ container: 4222, host })
    .withCopyContentToContainer([{ content: config, target: "/etc/nats/nats.conf" }])
    .withWaitStrategy(Wait.forLogMessage(/Server is ready/));
}

const nodeContainer = (name: string, host: number): GenericContainer =>
  new TuttiContainer([
    ...["run", "node", "--data-host", name, "--reply-scope", "any", "--warmup", "0"],
    ...["--http-host", "0.0.0.0", "--http-port", "8000", "--insecure-no-auth"],
  ]).withExposedPorts({ container: 8000, host });
