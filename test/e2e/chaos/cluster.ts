/**
 * The cluster that is struck. It has nodes, or two ingresses, two batchers and three rankers; one executor that runs
 * ONNX models and three that emulate them.
 */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { usersOf } from "@tutti/bus-nats";
import { BUCKET, type Role } from "@tutti/protocol";
import { type NatsClusterFixture, startNatsCluster, wholeStream } from "../../fixtures/nats-cluster.ts";
import { TuttiUp } from "../tutti-up.ts";
import { type Gateway, MODELS, WIDTH, echoModelBytes } from "./models.ts";
import type { Layout } from "./record.ts";
import { APP } from "./request-code.ts";

/** Latencies that emulated executors take; the real one is faster, and so is never later than planned. */
const CONFIG = "{ slo: 400ms, max_batch_size: 8, latencies: { alpha: 1ms, beta: 4ms } }";

const SPREAD = ["--layout", "spread", "--ingresses", "2", "--batchers", "2", "--rankers", "3"];
const argsOf = ({ kind, nodes }: Layout): string[] =>
  kind === "spread" ? SPREAD : ["--layout", "node", "--nodes", `${nodes}`, "--http-port", "0"];

/** Names of the nodes, as `tutti up` calls them. */
export const nodeNames = (nodes: number): string[] =>
  nodes === 1 ? ["node"] : Array.from({ length: nodes }, (_, i) => `node-${i}`);

export interface StruckCluster {
  readonly up: TuttiUp;
  /** All NATS servers, with commas between them. */
  readonly urls: string;
  /** NATS servers that may be struck. */
  readonly nats: StruckNats | undefined;
  /** Path of a role's credentials file. */
  credentialsOf(role: Role): string;
  /** Credentials of the application that asks; undefined where it needs none. */
  readonly appCredentials: string | undefined;
  /** Gateways that pass requests to the ingress of their own process, rotated to begin with `first`. */
  gateways(first: number): readonly Gateway[];
  stop(): Promise<void>;
}

export interface StruckNats {
  readonly servers: NatsClusterFixture["servers"];
  /** Resolves once all three servers have every message of every stream: only then may another be struck. */
  whole(): Promise<void>;
}

export async function startCluster(layout: Layout): Promise<StruckCluster> {
  const folder = await mkdtemp(join(tmpdir(), "tutti-chaos-"));
  for (const model of MODELS) {
    await mkdir(join(folder, model, "1"), { recursive: true });
    await writeFile(join(folder, model, "1/model.onnx"), echoModelBytes(WIDTH));
    await writeFile(join(folder, model, "config.yaml"), CONFIG);
  }
  const executors = ["--executors", "1", "--emulated-executors", "3"];
  const args = ["--no-demo", "--models", folder, ...argsOf(layout), ...executors, "--patience", "0"];
  const nats =
    layout.natsServers === undefined ? undefined : await startNatsCluster(usersOf({ cluster: "main", apps: [APP] }));
  const up = await TuttiUp.start([
    ...args,
    ...(nats === undefined ? [] : ["--nats", nats.urls, "--creds", nats.creds]),
  ]);
  return {
    up,
    urls: nats?.urls ?? up.url,
    nats: nats && { servers: nats.servers, whole: () => wholeBuckets(nats) },
    appCredentials: nats && join(nats.creds, `app-${APP}.nk`),
    credentialsOf: (role) => join(nats?.creds ?? join(up.runDirectory, new URL(up.url).port, "creds"), `${role}.nk`),
    gateways: (first) => {
      if (layout.kind === "spread") return [];
      const names = nodeNames(layout.nodes);
      return names.map((_, i) => gatewayOf(up, names[(first + i) % names.length]!));
    },
    async stop() {
      await up.stop();
      await nats?.stop();
      await rm(folder, { recursive: true });
    },
  };
}

async function wholeBuckets(nats: NatsClusterFixture): Promise<void> {
  const operator = await nats.connect("admin");
  try {
    for (const bucket of [BUCKET.leases, BUCKET.models, BUCKET.profiles, BUCKET.plan])
      await wholeStream(operator.control, bucket);
  } finally {
    await operator.close();
  }
}

/** The gateway at the address where it listened last. */
function gatewayOf(up: TuttiUp, name: string): Gateway {
  const ready = up.events.findLast((event) => event.event === "child-ready" && event["name"] === name);
  return { name, url: String(ready?.["http"]) };
}
