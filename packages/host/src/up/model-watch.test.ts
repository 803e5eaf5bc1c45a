import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { listRepository, readModelFile } from "@tutti/admin/models";
import { ModelRegistry } from "@tutti/client/registries";
import { generateMlp } from "@tutti/onnx-tools";
import { InMemoryStore } from "@tutti/ports/store";
import { micros } from "@tutti/units";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type ModelWatch, watchModels } from "./model-watch.ts";

let root = "";
let watch: ModelWatch | undefined;
let store = new InMemoryStore();
beforeEach(() => {
  store = new InMemoryStore();
  root = mkdtempSync(join(tmpdir(), "tutti-watch-"));
});
afterEach(async () => {
  await watch?.stop();
  watch = undefined;
  vi.unstubAllEnvs();
  rmSync(root, { recursive: true });
});

function put(name: string, version: string, seed: number): void {
  const folder = join(root, name, version);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "model.onnx"), generateMlp({ seed, widths: [8, 4] }));
  writeFileSync(join(root, name, "config.yaml"), "slo: 50ms\n");
}

/** A cluster that serves what the folder has, and a watch that has brought it there. */
async function served() {
  const registry = new ModelRegistry(store);
  const models = await listRepository(root);
  const publish = async ({ path, name }: { path: string; name: string }) => {
    const { model, bytes } = await readModelFile({ path, name, flags: { slo: "50ms" } });
    return registry.publish(model, { model: bytes });
  };
  const specs = await Promise.all(models.map(publish));
  const said: string[] = [];
  const options = { every: micros(20_000), servedMs: 60_000, served: models, specs };
  watch = watchModels(store, {
    ...{ ...options, place: root },
    announcer: { say: (event, text) => void said.push(`${event}: ${text}`) },
  });
  return { registry, said, publish };
}

test("a model that an operator has put in place of the repository's is neither replaced nor unloaded (WATCH-3)", async () => {
  for (const name of ["a", "b", "c"]) put(name, "1", 1);
  const { registry, said, publish } = await served();
  writeFileSync(join(root, "other.onnx"), generateMlp({ seed: 9, widths: [8, 4] }));
  const ofOperator = await publish({ path: join(root, "other.onnx"), name: "a" });
  put("a", "2", 2);
  await vi.waitFor(() => expect(said.join()).toMatch(/a is not taken over: .*served from elsewhere/));
  rmSync(join(root, "a"), { recursive: true });
  rmSync(join(root, "b"), { recursive: true });
  await vi.waitFor(() => expect(said).toContain("models-changed: b: gone from the repository, and unloaded"));
  expect((await registry.list()).map(({ spec }) => [spec.name, spec.number === ofOperator.number])).toEqual([
    ["a", true],
    ["c", false],
  ]);
});

test("only the version that the repository has brought is unloaded with it", async () => {
  for (const name of ["a", "b"]) put(name, "1", 1);
  const { registry, said } = await served();
  const { path } = (await listRepository(root))[0]!;
  const { model, bytes } = await readModelFile({ path, name: "a", flags: {} });
  await registry.publishVersion({ ...model, version: "x" }, { model: bytes });
  rmSync(join(root, "a"), { recursive: true });
  await vi.waitFor(() => expect(said.join()).toMatch(/a is gone from the repository, and stays: version 1 of "a"/));
  expect((await registry.list()).map(({ spec }) => spec.name)).toEqual(["a", "a/x", "b"]);
});

test("a model that is never served keeps no other one waiting", async () => {
  put("a", "1", 1);
  const { registry } = await served();
  for (const name of ["b", "c"]) put(name, "1", 1);
  await vi.waitFor(async () => expect((await registry.list()).map(({ spec }) => spec.name)).toEqual(["a", "b", "c"]));
});

test("a stop breaks a download off, and nothing is said of it", async () => {
  const server = createServer(() => undefined).listen(0, "127.0.0.1");
  await once(server, "listening");
  const asked = once(server, "request");
  vi.stubEnv("AWS_ENDPOINT_URL_S3", `http://localhost:${(server.address() as AddressInfo).port}`);
  for (const name of ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]) vi.stubEnv(name, "x");
  vi.stubEnv("TUTTI_MODEL_CACHE", join(root, "cache"));
  const said: string[] = [];
  watch = watchModels(store, {
    ...{ place: "s3://models/live/", every: micros(1_000), servedMs: 60_000, served: [], specs: [] },
    announcer: { say: (event, text) => void said.push(`${event}: ${text}`) },
  });
  await asked;
  const before = performance.now();
  await watch.stop();
  expect(performance.now() - before).toBeLessThan(5_000);
  expect(said).toEqual([]);
  server.closeAllConnections();
  server.close();
});
