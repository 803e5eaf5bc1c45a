/**
 * Times a newcomer's path. The steps are a clone, `npm start -- --jaeger`, a first answer, its trace in the console,
 * and a replay in the simulator's tab.
 *
 *   npm run bench:newcomer -- [--json] [--cold-npm] [--keep]
 *
 * Everything happens in a clone of this repository in a folder of its own, with ports of its own, as a newcomer would
 * have it. Nothing of this checkout's `.tutti` or `node_modules` is used but a Jaeger and a Chromium, where they exist
 * (a machine that can reach Jaeger's releases brings one in seconds, others build it in minutes: infra/jaeger).
 * `--cold-npm`: with an empty npm cache. Without a Chromium the last two steps send the page's requests.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Page } from "playwright-core";
import { findChromium, keepScreenshot, launchChromium, openPage } from "../../fixtures/chromium.ts";
import { pathTable } from "./path-text.ts";
import { readArguments } from "../arguments.ts";

const USAGE = "npm run bench:newcomer -- [--json] [--cold-npm] [--keep]\n";
const ROOT = join(import.meta.dirname, "../../..");
const STEP_MS = 10 * 60_000;
const values = readArguments(USAGE, {
  json: { type: "boolean", default: false },
  "cold-npm": { type: "boolean", default: false },
  keep: { type: "boolean", default: false },
});

const folder = mkdtempSync(join(tmpdir(), "tutti-newcomer-"));
const clone = join(folder, "tutti");
const startedAt = performance.now();
const steps: { step: string; seconds: number }[] = [];
let lastAt = startedAt;
const done = (step: string): void => {
  const at = performance.now();
  steps.push({ step, seconds: (at - lastAt) / 1_000 });
  lastAt = at;
  if (!values.json) process.stderr.write(`${((at - startedAt) / 1_000).toFixed(1).padStart(7)} s  ${step}\n`);
};

type UpEvent = Readonly<Record<string, unknown>>;
let up: ChildProcess | undefined;

/** Resolves with the gateway's and Jaeger's addresses when everything is served. */
function start(env: NodeJS.ProcessEnv): Promise<{ readonly http: string; readonly jaeger: string | undefined }> {
  const args = ["start", "--silent", "--", "--json", "--jaeger", "--port", "0"];
  const child = spawn("npm", args, { cwd: clone, env, stdio: ["ignore", "pipe", "pipe"], detached: true });
  up = child;
  let said = "";
  child.stderr.on("data", (chunk: Buffer) => (said = (said + chunk.toString()).slice(-4_000)));
  return new Promise((resolve, reject) => {
    let [http, jaeger] = ["", undefined as string | undefined];
    const late = setTimeout(
      () => reject(new Error(`npm start is not ready after ${STEP_MS / 1_000} s:\n${said}`)),
      STEP_MS,
    );
    child.once("exit", (code) => reject(new Error(`npm start ended with ${code}:\n${said}`)));
    createInterface({ input: child.stdout }).on("line", (line) => {
      if (!line.startsWith("{")) return;
      const event = JSON.parse(line) as UpEvent;
      if (event["event"] === "child-ready" && event["http"] !== undefined) http = String(event["http"]);
      if (event["event"] === "jaeger") jaeger = String(event["url"]);
      if (event["event"] !== "ready") return;
      clearTimeout(late);
      resolve({ http, jaeger });
    });
  });
}

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";

/** Asks as the README does. A machine that is still busy may need a second attempt, which counts into the time. */
async function answer(http: string): Promise<void> {
  const data = Array.from({ length: 16 }, (_, i) => i + 1);
  const body = JSON.stringify({ inputs: [{ name: "ids", datatype: "INT64", shape: [1, 16], data }] });
  const headers = { "tutti-slo": "500ms", traceparent: `00-${TRACE}-00f067aa0ba902b7-01` };
  for (let attempt = 1; ; attempt++) {
    const response = await fetch(`${http}/v2/models/ctr/infer`, { method: "POST", body, headers });
    const said = await response.text();
    if (response.ok) return;
    if (attempt === 20) throw new Error(`the first request was answered ${response.status}: ${said}`);
  }
}

/** Spans leave their processes a moment later. */
async function awaitTrace(http: string): Promise<void> {
  for (let attempt = 0; attempt < 300; attempt++) {
    const response = await fetch(`${http}/console/traces/${TRACE}`);
    const { spans = [] } = (await response.json()) as { spans?: readonly { readonly name: string }[] };
    if (spans.some(({ name }) => name === "answer")) return;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error("the trace did not come");
}

async function drawTrace(page: Page, http: string): Promise<void> {
  await page.goto(`${http}/#traces`);
  await page.getByLabel("Trace", { exact: true }).fill(TRACE);
  await page.keyboard.press("Enter");
  await page.locator(".waterfall button.span").filter({ hasText: /^run/ }).waitFor();
  await keepScreenshot(page, "newcomer-trace");
}

async function drawReplay(page: Page): Promise<void> {
  await page.getByRole("navigation").getByRole("link", { name: "Simulator" }).click();
  await page.getByLabel("Accelerators").fill("2");
  await page.getByRole("button", { name: "Replay" }).click();
  await page.getByRole("img", { name: /^Accelerator timeline: \d+ batch/ }).waitFor();
  await keepScreenshot(page, "newcomer-replay");
}

async function askReplay(http: string): Promise<void> {
  const wish = { minutes: 10, gpus: 2, policy: "default" };
  const response = await fetch(`${http}/console/replay`, { method: "POST", body: JSON.stringify(wish) });
  if (!response.ok) throw new Error(`the replay was answered ${response.status}: ${await response.text()}`);
}

/** The path of Jaeger as `npm run jaeger` recorded it in this checkout. */
function jaegerHere(): string | undefined {
  const noted = join(ROOT, ".tutti/jaeger.json");
  const path = process.env["TUTTI_JAEGER"] ?? (existsSync(noted) ? readPath(noted) : undefined);
  return path !== undefined && existsSync(path) ? path : undefined;
}
const readPath = (file: string): string => (JSON.parse(readFileSync(file, "utf8")) as { readonly path: string }).path;

async function walk(): Promise<void> {
  const git = spawnSync("git", ["clone", "--quiet", ROOT, clone], { encoding: "utf8" });
  if (git.status !== 0) throw new Error(git.stderr);
  done("git clone");
  const here = jaegerHere();
  const { TUTTI_NATS_SERVER: _, ...env } = process.env;
  const { http, jaeger } = await start({
    ...env,
    ...(here !== undefined && { TUTTI_JAEGER: here }),
    ...(values["cold-npm"] && { npm_config_cache: join(folder, "npm-cache") }),
  });
  done("npm start -- --jaeger: Node 24, packages, the console's page, models measured, everything serves");
  await answer(http);
  done("a request, answered");
  if (jaeger === undefined) throw new Error("no Jaeger could be had: `npm run jaeger` says why");
  await awaitTrace(http);
  const found = findChromium();
  const browser = "missing" in found ? undefined : await launchChromium(found.path);
  try {
    const page = browser && (await openPage(browser, { viewport: { width: 1280, height: 860 } }));
    if (page !== undefined) await drawTrace(page.page, http);
    done(page === undefined ? "its trace, as the page would ask for it" : "its trace, drawn in the console");
    if (page === undefined) await askReplay(http);
    else await drawReplay(page.page);
    done(page === undefined ? "a replay, as the page would ask for it" : "a replay in the simulator's tab, drawn");
  } finally {
    await browser?.close();
  }
}

try {
  await walk();
  const total = (lastAt - startedAt) / 1_000;
  process.stdout.write(values.json ? `${JSON.stringify({ steps, seconds: total })}\n` : pathTable(steps));
} finally {
  if (up !== undefined && up.exitCode === null && up.pid !== undefined) {
    const ended = once(up, "exit");
    process.kill(-up.pid, "SIGTERM");
    await ended;
  }
  if (!values.keep) rmSync(folder, { recursive: true, force: true });
}
