/**
 * Loads a model in two versions and shares its requests, with a release's own code: `publish-models.ts <folder> <url>`.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type * as Nats from "@tutti/bus-nats";
import type * as Registries from "@tutti/client/registries";
import { micros, millis } from "@tutti/units";

const [folder = "", servers = ""] = process.argv.slice(2);
const load = (path: string): Promise<unknown> => import(pathToFileURL(join(folder, path)).href);
const own = "packages/client/src/registries.ts";
const client = existsSync(join(folder, own)) ? own : "packages/client/src/index.ts";
const { ModelRegistry, RouteRegistry } = (await load(client)) as typeof Registries;
const { connectNats } = (await load("packages/bus-nats/src/index.ts")) as typeof Nats;
const nats = await connectNats({ servers, name: "publish" });
const registry = new ModelRegistry(nats.store);
const latency = (batchSize: number) => ({ batchSize, latency: micros(2_000 + 1_000 * batchSize) });
for (const version of ["1", "2"]) {
  const spec = await registry.publishVersion({
    ...{ name: "echo", version, engine: "emulated", slo: millis(2_000), batchSizeMax: 8, patience: 0 },
    inputs: [{ name: "x", type: "FP32", dims: ["batch", 1] }],
    outputs: [{ name: "y", type: "FP32", dims: ["batch", 1] }],
    ...{ constants: [], axes: {}, buckets: [{}], profile: [[1, 2, 4, 8].map(latency)] },
  });
  await registry.waitUntilServed(spec, { timeoutMs: 60_000 });
}
await new RouteRegistry(nats.store).setShare("echo", { version: "2", percent: 30 });
await nats.close();
