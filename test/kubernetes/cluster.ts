/**
 * The Kubernetes that tests use: the one whose kubeconfig LOCAL_K8S names. Its hosts take the images by the command
 * LOCAL_K8S_LOAD, or pull LOCAL_K8S_IMAGE and LOCAL_K8S_NATS_IMAGE.
 */
import { execFile, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { onTestFinished } from "vitest";
import { CHART, HELM, ROOT, type Values, findProgram } from "../chart/helm.ts";
import type { AskerCommand, AskerReply } from "./commands.ts";

const run = promisify(execFile);
const KUBECTL = findProgram("kubectl", "TUTTI_KUBECTL");
const { LOCAL_K8S, LOCAL_K8S_LOAD, LOCAL_K8S_IMAGE, LOCAL_K8S_NATS_IMAGE } = process.env;
const WAIT = "300s";

/** Why there is no cluster to test on; undefined: there is one. */
export const NO_CLUSTER = ((): string | undefined => {
  if (!LOCAL_K8S) return "no LOCAL_K8S: node infra/deploy/local-cluster/with-cluster.mjs npm test -- kubernetes";
  if (!LOCAL_K8S_LOAD && !LOCAL_K8S_IMAGE)
    return "neither LOCAL_K8S_LOAD nor LOCAL_K8S_IMAGE (test/kubernetes/README.md)";
  if (HELM === undefined) return "no helm is here: node infra/deploy/tools.mjs helm";
  return KUBECTL === undefined ? "no kubectl is here" : undefined;
})();

const IMAGES = {
  tutti: LOCAL_K8S_IMAGE ?? "docker.io/library/tutti:test",
  nats: LOCAL_K8S_NATS_IMAGE ?? "docker.io/library/tutti:test-nats",
};

/**
 * Requests for which two cores have room. They are shares too: executors that start and measure must not starve those
 * that answer.
 */
const REQUESTS = {
  nats: { cpu: "100m", memory: "128Mi" },
  node: { cpu: "400m", memory: "256Mi" },
  executor: { cpu: "100m", memory: "256Mi" },
  asker: { cpu: "300m", memory: "128Mi" },
};
const limits = { memory: "2Gi" };
export const SMALL = {
  image: imageValues(IMAGES.tutti),
  nats: { image: imageValues(IMAGES.nats), resources: { requests: REQUESTS.nats } },
  node: { resources: { requests: REQUESTS.node, limits } },
  executor: { resources: { requests: REQUESTS.executor, limits } },
};

function imageValues(image: string): { readonly repository: string; readonly tag: string } {
  const at = image.lastIndexOf(":");
  return { repository: image.slice(0, at), tag: image.slice(at + 1) };
}

/** Builds both images from this clone, as `npm run image` does, and hands them to the cluster, where it takes them. */
export async function provideImages(): Promise<void> {
  if (!LOCAL_K8S_LOAD) return;
  const folder = await mkdtemp(join(tmpdir(), "tutti-images-"));
  try {
    const archive = process.env["LOCAL_K8S_ARCHIVE"] ?? join(folder, "images.tar");
    if (archive.startsWith(folder)) {
      await run(process.execPath, [join(ROOT, "infra/image/main.ts"), "--tag", "tutti:test", "--context", folder]);
      await run("docker", ["save", "--output", archive, "tutti:test", "tutti:test-nats"]);
    }
    await run("sh", ["-c", `${LOCAL_K8S_LOAD} < ${archive}`]);
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** One namespace, under the strictest of Kubernetes' standards for pods. */
export class Namespace {
  readonly name: string;

  private constructor(name: string) {
    this.name = name;
  }

  /** A new one, which ends with the test. */
  static async create(): Promise<Namespace> {
    const name = `tutti-${randomUUID().slice(0, 8)}`;
    const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
    await apply({ apiVersion: "v1", kind: "Namespace", metadata: { name, labels } });
    const namespace = new Namespace(name);
    onTestFinished(() => namespace.remove());
    return namespace;
  }

  async kubectl(...args: string[]): Promise<string> {
    return (await run(KUBECTL!, ["--kubeconfig", LOCAL_K8S!, "--namespace", this.name, ...args], { maxBuffer: 1e8 }))
      .stdout;
  }

  /** @returns what helm says, after every pod is ready */
  async helm(command: "install" | "upgrade", release: string, values: Values, ...args: string[]): Promise<string> {
    const target = ["--kubeconfig", LOCAL_K8S!, "--namespace", this.name, "--wait", "--timeout", WAIT];
    return feed(HELM!, [command, release, CHART, ...target, "--values", "-", ...args], JSON.stringify(values));
  }

  async uninstall(release: string): Promise<void> {
    await run(HELM!, ["uninstall", release, "--kubeconfig", LOCAL_K8S!, "--namespace", this.name, "--wait"]);
  }

  /** Asks for the end of a pod, as `kubectl drain` does. @throws {Error} a PodDisruptionBudget is in the way */
  async evict(pod: string): Promise<void> {
    const metadata = { name: pod, namespace: this.name };
    const eviction = JSON.stringify({ apiVersion: "policy/v1", kind: "Eviction", metadata });
    const path = `/api/v1/namespaces/${this.name}/pods/${pod}/eviction`;
    await feed(KUBECTL!, ["--kubeconfig", LOCAL_K8S!, "create", "--raw", path, "--filename", "-"], eviction);
  }

  /** Resolves once no pod of a release is there. */
  async gone(release: string): Promise<void> {
    const selector = `app.kubernetes.io/instance=${release}`;
    await this.kubectl("wait", "--for=delete", "pod", "--selector", selector, `--timeout=${WAIT}`);
  }

  /** Resolves once all pods of a set are ready, and no more of them are there. */
  async settled(set: string): Promise<void> {
    await this.kubectl("rollout", "status", `statefulset/${set}`, `--timeout=${WAIT}`);
  }

  private async remove(): Promise<void> {
    await this.kubectl("delete", "namespace", this.name, "--wait=false");
  }
}

async function apply(object: object): Promise<void> {
  await feed(KUBECTL!, ["--kubeconfig", LOCAL_K8S!, "apply", "--filename", "-"], JSON.stringify(object));
}

/** Runs a program on an input. @returns what it prints */
async function feed(program: string, args: readonly string[], input: string): Promise<string> {
  const running = run(program, args);
  running.child.stdin!.end(input);
  return (await running).stdout;
}

/** Sources of the load, as they are below test/. */
const SOURCES = [
  "kubernetes/asker.ts",
  "kubernetes/commands.ts",
  ...["http-asker", "load", "models", "record", "report-text", "request-code", "verdict"].map(
    (name) => `e2e/chaos/${name}.ts`,
  ),
];

/** The load, which runs in a pod of Tutti's own image beside the sources of the test. */
export class Asker {
  readonly #process;
  readonly #lines: AsyncIterator<string>;

  private constructor(process: ReturnType<typeof spawnAsker>) {
    this.#process = process;
    this.#lines = createInterface({ input: process.stdout })[Symbol.asyncIterator]();
  }

  static async start(namespace: Namespace, addresses: { nats: string; gateway: string }): Promise<Asker> {
    const keyOf = (path: string): string => path.replaceAll("/", ".");
    const texts = await Promise.all(SOURCES.map((path) => readFile(join(ROOT, "test", path), "utf8")));
    const metadata = { name: "asker", namespace: namespace.name };
    const data = Object.fromEntries(SOURCES.map((path, i) => [keyOf(path), texts[i]!]));
    await apply({ apiVersion: "v1", kind: "ConfigMap", metadata, data });
    await apply({
      apiVersion: "v1",
      kind: "Pod",
      metadata,
      spec: podSpec(SOURCES.map((path) => ({ key: keyOf(path), path }))),
    });
    await namespace.kubectl("wait", "--for=condition=Ready", "pod/asker", `--timeout=${WAIT}`);
    return new Asker(spawnAsker(namespace, addresses));
  }

  async tell(command: AskerCommand): Promise<AskerReply> {
    this.#process.stdin.write(`${JSON.stringify(command)}\n`);
    const { value, done } = await this.#lines.next();
    if (done === true) throw new Error("the load's pod has ended");
    const reply = JSON.parse(value) as AskerReply;
    if (reply.error !== undefined) throw new Error(`${command.op}: ${reply.error}`);
    return reply;
  }

  async stop(): Promise<void> {
    const closed = once(this.#process, "close");
    this.#process.stdin.end();
    await closed;
  }
}

function spawnAsker({ name }: Namespace, { nats, gateway }: { readonly nats: string; readonly gateway: string }) {
  const command = ["/usr/bin/node", "/app/test/kubernetes/asker.ts", "--nats", nats, "--gateway", gateway];
  return spawn(
    KUBECTL!,
    ["--kubeconfig", LOCAL_K8S!, "--namespace", name, "exec", "--stdin", "asker", "--", ...command],
    { stdio: ["pipe", "pipe", "inherit"] },
  );
}

const podSpec = (items: readonly { key: string; path: string }[]): object => ({
  automountServiceAccountToken: false,
  enableServiceLinks: false,
  terminationGracePeriodSeconds: 1,
  securityContext: { runAsNonRoot: true, runAsUser: 65_534, seccompProfile: { type: "RuntimeDefault" } },
  volumes: [{ name: "test", configMap: { name: "asker", items } }],
  containers: [
    {
      ...{ name: "asker", image: IMAGES.tutti, imagePullPolicy: "IfNotPresent" },
      command: ["/usr/bin/node", "-e", "setInterval(() => {}, 1e9)"],
      resources: { requests: REQUESTS.asker },
      volumeMounts: [{ name: "test", mountPath: "/app/test" }],
      securityContext: {
        ...{ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true },
        capabilities: { drop: ["ALL"] },
      },
    },
  ],
});
