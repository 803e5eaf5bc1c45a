/**
 * The set-up as docs/security.md describes it: `tutti auth init`, a server with its files, and `tutti up --creds` on
 * that.
 */
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { type NatsConnection, connectNats, readCredentials } from "@tutti/bus-nats";
import type { Delivery } from "@tutti/ports/bus";
import { CONTENT, inferSubject } from "@tutti/protocol";
import { encodeRequest } from "@tutti/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { findChromium, launchChromium, openPage } from "../fixtures/chromium.ts";
import { freePorts, startConfigured } from "../fixtures/configured-nats.ts";
import { ROOT, TuttiUp, tutti } from "./tutti-up.ts";

const ending: (() => Promise<unknown> | void)[] = [];
let dir: string;
let url: string;
let http: string;
let key: string;
let adminKey: string;

beforeAll(async () => {
  const folder = await mkdtemp(join(tmpdir(), "tutti-e2e-auth-"));
  ending.push(() => rm(folder, { recursive: true }));
  dir = join(folder, "tutti-auth");
  const [port = 0] = await freePorts(1);
  const auth = (...args: string[]) => tutti(["auth", ...args, "--dir", dir, "--json"]);
  expect((await auth("init", "--app", "camera", "robot", "--port", String(port))).code).toBe(0);
  key = (JSON.parse((await auth("key", "add", "camera")).stdout) as { readonly key: string }).key;
  const made = await auth("key", "add", "operations", "--admin");
  adminKey = (JSON.parse(made.stdout) as { readonly key: string }).key;
  const server = await startConfigured(join(dir, "nats.conf"));
  ending.push(() => server.stop());
  url = `nats://127.0.0.1:${port}`;
  const profiles = join(folder, "profiles.yaml");
  await writeFile(profiles, "models: [{ name: quick, sloMs: 2000, batchMax: 8, alphaMs: 0.5, betaMs: 2 }]\n");
  const up = await TuttiUp.start([
    ...["--nats", url, "--creds", join(dir, "creds"), "--emulate", profiles, "--gpus", "1"],
    ...["--api-keys", join(dir, "api-keys.json")],
  ]);
  ending.push(() => up.stop());
  http = String((await up.next("child-ready", ({ http: at }) => at !== undefined))["http"]);
});
afterAll(async () => {
  for (const end of ending.splice(0).reverse()) await end();
});

async function as(user: string): Promise<NatsConnection> {
  const credentials = readCredentials(join(dir, "creds", `${user}.nk`));
  const nats = await connectNats({ servers: url, name: user, credentials });
  ending.push(() => nats.close());
  return nats;
}
const flushed = ({ control }: NatsConnection): Promise<unknown> => new Promise((resolve) => control.flush(resolve));

test("an application that names another's inbox for its answer gets none, and the other hears nothing", async () => {
  const [camera, robot] = [await as("app-camera"), await as("app-robot")];
  const stolen: string[] = [];
  robot.control.subscribe("_INBOX.robot.>", ({ subject }) => void stolen.push(subject));
  await flushed(robot);
  const X = { name: "x", type: "FP32", dims: [1, 1], data: new Uint8Array(new Float32Array([7]).buffer) } as const;
  const payload = encodeRequest("binary", { inputs: [X] });
  const subject = inferSubject("quick", "camera");
  for (const reply of ["_INBOX.robot.x", "_INBOX.admin.x", "_INBOX.x"])
    camera.bulk.publish(subject, payload, { reply });
  // This request follows the others on the same connection: answers to them would have come before.
  const answer = await new Promise((resolve) => camera.bulk.request(subject, payload, { timeoutMs: 5_000 }, resolve));
  expect(answer).toHaveProperty("payload");
  await flushed(robot);
  expect(stolen).toEqual([]);
});

test("of an operator's command in its name an application hears the answers, and nothing of the store", async () => {
  const camera = await as("app-camera");
  const heard: Delivery[] = [];
  camera.control.subscribe("_INBOX.camera.>", (delivery) => void heard.push(delivery));
  await flushed(camera);
  const operator = ["--app", "camera", "--nats", url, "--creds", join(dir, "creds/admin.nk")];
  const asked = await tutti(["infer", "quick", ...operator, "--json"]);
  expect(asked.stderr).toBe("");
  await flushed(camera);
  expect(heard.map((delivery) => delivery.header("Content-Type"))).toEqual([CONTENT.binary]);
  const benched = await tutti([
    "bench",
    "quick",
    ...operator,
    "--rate",
    "20",
    "--seconds",
    "1",
    "--warmup",
    "0",
    "--json",
  ]);
  expect(benched.stderr).toBe("");
  await flushed(camera);
  expect(heard.length).toBeGreaterThan(1);
  expect(new Set(heard.map((delivery) => delivery.header("Content-Type")))).toEqual(new Set([CONTENT.binary]));
});

test("over HTTP the application's key is asked for, and its name is the key's", async () => {
  const ask = async (headers: Record<string, string>): Promise<number> => {
    const body = JSON.stringify({ inputs: [{ name: "x", datatype: "FP32", shape: [1, 1], data: [7] }] });
    const response = await fetch(`${http}/v2/models/quick/infer`, { method: "POST", headers, body });
    await response.arrayBuffer();
    return response.status;
  };
  expect(await ask({})).toBe(401);
  expect(await ask({ authorization: `Bearer ${key}`, "tutti-app": "robot" })).toBe(403);
  await expect.poll(() => ask({ authorization: `Bearer ${key}` }), { timeout: 10_000 }).toBe(200);
});

test("the console's page shows nothing until it has an administrator's key", async (context) => {
  const found = findChromium();
  if ("missing" in found) return context.skip(found.missing);
  await promisify(execFile)(process.execPath, [join(ROOT, "packages/console/build.mjs"), "--if-changed"]);
  const browser = await launchChromium(found.path);
  ending.push(() => browser.close());
  const { page } = await openPage(browser, {});
  await page.goto(`${http}/`);
  const field = page.getByLabel("Administrator's key");
  for (const wrong of ["nonsense", key]) {
    await field.fill(wrong);
    const refused = page.waitForResponse(
      (response) => response.url().endsWith("/console/feed") && response.status() >= 401,
    );
    await field.press("Enter");
    await refused;
    expect(await page.getByText("quick").count()).toBe(0);
  }
  await field.fill(adminKey);
  await field.press("Enter");
  await page.getByText("serving", { exact: true }).waitFor({ timeout: 30_000 });
  await page.getByText("quick").first().waitFor({ timeout: 30_000 });
  expect(await field.count()).toBe(0);
});

test("a command that NATS refuses says which credentials it needs", { timeout: 120_000 }, async () => {
  const env = { ...process.env, TUTTI_RUN_DIR: join(dir, "none") };
  const refused = async (...args: string[]): Promise<string> => {
    const { code, stderr } = await tutti([...args, "--nats", url], env);
    expect([code, stderr]).toEqual([1, expect.stringContaining("(TUTTI_FORBIDDEN)")]);
    return stderr;
  };
  const advice = "name the operator's with --creds creds/admin.nk (`tutti auth init` makes it), or with TUTTI_CREDS";
  const own = join(dir, "creds/app-camera.nk");
  expect(await refused("models")).toContain(`127.0.0.1:${new URL(url).port} asks for credentials: ${advice}`);
  for (const command of [["models"], ["unload", "quick"], ["plan", "--live"], ["status"], ["infer", "quick"]]) {
    const text = await refused(...command, "--creds", own);
    expect(text).toContain(`does not allow this with ${own} (`);
    expect(text).toContain(advice);
    // It may be the application itself, which has no other credentials.
    expect(text.includes("docs/guides/publisher.md")).toBe(command[0] === "infer");
  }
  expect(await refused("record", "--out", join(dir, "none.trace"))).toContain(
    "recorder's with --creds creds/recorder.nk",
  );
});
