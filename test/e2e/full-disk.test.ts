/**
 * A cluster whose run folder is on a disk that is full for a while. The folder has logs, state, and the NATS server's
 * store. It needs the permission to mount one.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { generateAddOne } from "@tutti/onnx-tools";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { TuttiUp } from "./tutti-up.ts";

const folder = mkdtempSync(join(tmpdir(), "tutti-e2e-disk-"));
const disk = join(folder, "disk");
let isMounted = false;
let up: TuttiUp | undefined;
let http: string;

beforeAll(async () => {
  mkdirSync(disk);
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=96m", "tutti-test", disk], { stdio: "ignore" });
    isMounted = true;
  } catch {
    return;
  }
  writeFileSync(join(folder, "add-one.onnx"), generateAddOne({ width: 4 }));
  writeFileSync(join(folder, "latencies.yaml"), "{ 1: 2ms, 8: 5ms }\n");
  writeFileSync(
    join(folder, "profiles.yaml"),
    "models: [{ name: quick, sloMs: 2000, batchMax: 8, alphaMs: 0.5, betaMs: 2 }]\n",
  );
  up = await TuttiUp.start(
    ["--emulate", join(folder, "profiles.yaml"), "--gpus", "2", "--executors", "2", "--log-level", "debug"],
    join(disk, "run"),
  );
  http = String((await up.next("child-ready", ({ http: at }) => at !== undefined))["http"]);
});
beforeEach((context) => {
  if (!isMounted) context.skip("this process may not mount a small disk");
});
afterAll(async () => {
  await up?.stop("keep");
  if (isMounted) execFileSync("umount", [disk]);
  rmSync(folder, { recursive: true });
});

async function ask(): Promise<number> {
  const body = JSON.stringify({ inputs: [{ name: "x", datatype: "FP32", shape: [1, 1], data: [7] }] });
  const response = await fetch(`${http}/v2/models/quick/infer`, { method: "POST", body });
  await response.arrayBuffer();
  return response.status;
}

function fill(): string {
  const path = join(disk, "filler");
  const piece = Buffer.alloc(65_536);
  try {
    for (;;) writeFileSync(path, piece, { flag: "a" });
  } catch (error) {
    expect((error as NodeJS.ErrnoException).code).toBe("ENOSPC");
  }
  expect(statfsSync(disk).bavail).toBe(0);
  return path;
}

test("requests are answered while the disk is full, and everything is as before once there is room", async () => {
  const cluster = up!;
  expect(await ask()).toBe(200);
  const [processes, before] = [cluster.processes(), cluster.events.length];
  const filler = fill();
  const load = () =>
    cluster.command("load", join(folder, "add-one.onnx"), "--slo", "2s", "--profile", join(folder, "latencies.yaml"));
  // Logs and the store are written meanwhile: an executor dies, and its model moves.
  process.kill(cluster.pidOf("executor-1"), "SIGKILL");
  await cluster.next("child-exit", ({ name }) => name === "executor-1");
  await expect.poll(ask, { timeout: 20_000 }).toBe(200);
  for (let i = 0; i < 20; i++) expect(await ask()).toBe(200);
  expect((await load()).code).not.toBe(0);
  expect(await ask()).toBe(200);
  for (const name of ["node", "executor-0"]) expect(processes).toContain(cluster.pidOf(name));

  rmSync(filler);
  await expect.poll(async () => (await cluster.command("models", "--json")).code, { timeout: 20_000 }).toBe(0);
  await expect.poll(ask, { timeout: 20_000 }).toBe(200);
  // The executor that died is back, and logs continue.
  await cluster.next("child-ready", ({ name }) => name === "executor-1", before);
  await expect.poll(ask, { timeout: 20_000 }).toBe(200);
  expect((await load()).code).toBe(0);
  // The server logged errors until there was room, and logs again when it ends.
  const log = join(disk, "run", new URL(cluster.url).port, "logs/nats-server.log");
  await cluster.stop("keep");
  up = undefined;
  expect(readFileSync(log, "utf8")).toMatch(/no space left|lines are missing here/);
});
