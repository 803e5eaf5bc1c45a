import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { type RunningCluster, findCluster } from "./find-cluster.ts";

const roots: string[] = [];
afterEach(async () => {
  for (const root of roots.splice(0)) await rm(root, { recursive: true });
});

async function runDirectory(states: readonly Partial<RunningCluster>[]): Promise<NodeJS.ProcessEnv> {
  const root = await mkdtemp(join(tmpdir(), "tutti-cluster-"));
  roots.push(root);
  for (const [index, state] of states.entries()) {
    await mkdir(join(root, String(index)));
    const full = { cluster: "main", pid: process.pid, startedAt: String(index), ...state };
    await writeFile(join(root, String(index), "state.json"), JSON.stringify(full));
  }
  return { TUTTI_RUN_DIR: root };
}

test("without a name the cluster that started last on this machine is meant", async () => {
  const env = await runDirectory([{ url: "nats://127.0.0.1:1" }, { url: "nats://127.0.0.1:2" }]);
  expect(await findCluster({}, env)).toMatchObject({ servers: ["nats://127.0.0.1:2"], cluster: "main" });
});

test("a cluster whose process is gone is not found", async () => {
  const env = await runDirectory([{ url: "nats://127.0.0.1:1", pid: 2 ** 22 + 1 }]);
  await expect(findCluster({}, env)).rejects.toThrow(/tutti up/);
});

test("a server that is named wins, and finds its own credentials when it runs here", async () => {
  const credentials = { admin: "/run/admin.creds" };
  const env = await runDirectory([{ url: "nats://127.0.0.1:1", credentials }, { url: "nats://127.0.0.1:2" }]);
  expect(await findCluster({ nats: "localhost:1" }, env)).toMatchObject({ credentials: "/run/admin.creds" });
  const usual = await runDirectory([{ url: "nats://127.0.0.1:4222", credentials }]);
  for (const nats of ["localhost", "nats://localhost/", "tls://127.0.0.1", "127.0.0.1:4222"])
    expect(await findCluster({ nats }, usual)).toMatchObject({ credentials: "/run/admin.creds" });
  expect(await findCluster({ nats: "nats://far:4222" }, env)).toMatchObject({
    servers: ["nats://far:4222"],
    credentials: undefined,
  });
  expect(await findCluster({}, { ...env, TUTTI_NATS: "nats://far:1" })).toMatchObject({ servers: ["nats://far:1"] });
});
