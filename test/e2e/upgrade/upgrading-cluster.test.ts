/** Processes of an upgrade end with it, whatever fails. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { UpgradingCluster } from "./upgrading-cluster.ts";

/** Folder of a release whose client never connects. */
let release = "";
beforeEach(() => {
  release = mkdtempSync(join(tmpdir(), "tutti-release-"));
  const client = join(release, "packages/client/src");
  mkdirSync(client, { recursive: true });
  const started = JSON.stringify(join(release, "started"));
  writeFileSync(
    join(client, "index.ts"),
    `import { writeFileSync } from "node:fs";
    writeFileSync(${started}, "");
    export const connect = () => new Promise(() => setInterval(() => undefined, 1_000));`,
  );
});
afterEach(() => rmSync(release, { recursive: true, force: true }));

const hasStarted = () =>
  vi.waitFor(() => expect(existsSync(join(release, "started"))).toBe(true), { timeout: 20_000, interval: 20 });

test("a cluster that stops ends what has not become ready", { timeout: 60_000 }, async () => {
  const cluster = await UpgradingCluster.start();
  const load = cluster.load(release).catch((error: unknown) => String(error));
  await hasStarted();
  await cluster.stop();
  expect(await load).toContain("load ended with null before it was ready");
});

test("a load ends with the process that started it", { timeout: 60_000 }, async () => {
  const child = fork(join(import.meta.dirname, "load-process.ts"), [release, "nats://127.0.0.1:1", "echo"]);
  const ended = once(child, "exit");
  await hasStarted();
  child.disconnect();
  expect(await ended).toEqual([0, null]);
});
