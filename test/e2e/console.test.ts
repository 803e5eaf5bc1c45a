/**
 * The console in a real browser, on a cluster of real processes under load. Screenshots are stored in
 * .tutti/screenshots.
 */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { FeedHistory } from "@tutti/console";
import { connect } from "@tutti/client";
import type { Browser, BrowserContextOptions, Locator, Page } from "playwright-core";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { findJaeger } from "../../infra/jaeger/jaeger.mjs";
import { thisHost } from "../../infra/setup/host.mjs";
import { findChromium, keepScreenshot, launchChromium, openPage } from "../fixtures/chromium.ts";
import { TOKEN } from "./gateway-cluster.ts";
import { ROOT, TuttiUp } from "./tutti-up.ts";

/** SLOs that a machine keeps on which other processes run. */
const PROFILES = `models:
  - { name: resnet50, sloMs: 1500, batchMax: 32, alphaMs: 6, betaMs: 40 }
  - { name: bert, sloMs: 2000, batchMax: 16, alphaMs: 14, betaMs: 50 }
  - { name: yolo, sloMs: 1000, batchMax: 16, alphaMs: 8, betaMs: 30 }
`;
const RATES: Readonly<Record<string, number>> = { resnet50: 30, bert: 8, yolo: 15 };
/** More than are done before the pictures are taken. */
const JOBS = 1_000;
const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const PATIENT = { timeout: 90_000 };

const found = findChromium();
const jaeger = findJaeger(thisHost(), join(ROOT, ".tutti"));
let up: TuttiUp | undefined;
let http: string;
let browser: Browser | undefined;
let folder: string;
let loading: NodeJS.Timeout[] = [];

beforeAll(async () => {
  if ("missing" in found) return;
  folder = await mkdtemp(join(tmpdir(), "tutti-e2e-console-"));
  await writeFile(join(folder, "token"), TOKEN);
  await writeFile(join(folder, "profiles.yaml"), PROFILES);
  const building = promisify(execFile)(process.execPath, [join(ROOT, "packages/console/build.mjs"), "--if-changed"]);
  const emulated = ["--emulate", join(folder, "profiles.yaml"), "--gpus", "4", "--no-demo"];
  if (jaeger !== undefined) vi.stubEnv("TUTTI_JAEGER", jaeger.path);
  const traced = jaeger === undefined ? [] : ["--jaeger"];
  up = await TuttiUp.start([...emulated, ...traced, "--admin-token", join(folder, "token")]);
  vi.unstubAllEnvs();
  await building;
  http = String((await up.next("child-ready", ({ http: at }) => at !== undefined))["http"]);
  browser = await launchChromium(found.path);
  loading = Object.entries(RATES).map(([model, rate]) => setInterval(() => void ask(model), 1_000 / rate));
}, 300_000);
beforeEach((context) => {
  if ("missing" in found) context.skip(found.missing);
});
afterAll(async () => {
  for (const timer of loading) clearInterval(timer);
  await browser?.close();
  await up?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true });
});

async function ask(model: string, more: Record<string, string> = {}): Promise<void> {
  const body = JSON.stringify({ inputs: [{ name: "x", shape: [1, 1], datatype: "FP32", data: [1] }] });
  const headers = { "tutti-app": "e2e", ...more };
  // The page shows the outcome; a refusal while an actor restarts is no failure here.
  await fetch(`${http}/v2/models/${model}/infer`, { method: "POST", body, headers }).then(
    (response) => response.arrayBuffer(),
    () => undefined,
  );
}

const DESKTOP: BrowserContextOptions = { viewport: { width: 1280, height: 860 }, colorScheme: "light" };

const PHONE: BrowserContextOptions = {
  ...{ viewport: { width: 390, height: 844 }, deviceScaleFactor: 2 },
  ...{ colorScheme: "dark", hasTouch: true, isMobile: true },
};

/** Waits until each model has been served, and the timeline has bars. */
async function awaitLoad(page: Page): Promise<void> {
  await page.getByText("serving", { exact: true }).waitFor(PATIENT);
  const good = page
    .getByRole("row", { name: /resnet50/ })
    .getByRole("cell")
    .nth(1);
  await expect.poll(async () => Number((await good.textContent()) ?? 0), PATIENT).toBeGreaterThan(0);
  await page.getByRole("img", { name: /^Accelerator timeline: \d+ batches of/ }).waitFor(PATIENT);
}

/**
 * Number of points of the timeline that have the colour of a model. They are read from a copy: a canvas that is read
 * often is drawn more slowly.
 */
const colouredPoints = (page: Page): Promise<number> =>
  page.evaluate(`(() => {
    const canvas = document.querySelector(".timeline canvas");
    const { width, height } = canvas;
    const pen = Object.assign(document.createElement("canvas"), { width, height }).getContext("2d");
    pen.drawImage(canvas, 0, 0);
    const { data } = pen.getImageData(0, 0, width, height);
    let count = 0;
    for (let i = 0; i < data.length; i += 4) {
      const [red, green, blue, alpha] = data.subarray(i, i + 4);
      if (alpha > 200 && Math.max(red, green, blue) - Math.min(red, green, blue) > 60) count++;
    }
    return count;
  })()`);

const picture = (page: Page): Promise<string> =>
  page.evaluate(`document.querySelector(".timeline canvas").toDataURL()`);

test("the page shows the load as it comes: bars on the timeline, rates by model, charts that grow", async () => {
  const { page, complaints } = await openPage(browser!, DESKTOP);
  await page.goto(http);
  await awaitLoad(page);
  await expect.poll(() => colouredPoints(page), PATIENT).toBeGreaterThan(500);
  const asked = page.locator(".totals dd").first();
  const before = await asked.textContent();
  await expect.poll(() => asked.textContent(), PATIENT).not.toBe(before);
  await page.getByRole("heading", { name: "The last minutes" }).waitFor(PATIENT);

  // A model picked out by keyboard stands alone in the charts.
  const pick = page.getByRole("button", { name: "bert" });
  await pick.focus();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "The last minutes of bert" }).waitFor();
  expect(await pick.getAttribute("aria-pressed")).toBe("true");

  await page.getByRole("button", { name: "Pause" }).click();
  const slider = page.getByRole("slider", { name: "Back" });
  await slider.waitFor(PATIENT);
  const paused = await picture(page);
  await slider.press("ArrowRight");
  expect(Number(await slider.inputValue())).toBeGreaterThan(0);
  // The number of coloured points can't be compared: with accelerators that are always busy two moments have the same.
  await expect.poll(() => picture(page), PATIENT).not.toBe(paused);
  expect(complaints).toEqual([]);
  await page.context().close();
});

const chartWords = (page: Page): Promise<string> =>
  page
    .getByRole("img", { name: /^Queue in requests, now: .*resnet50/ })
    .getAttribute("aria-label", PATIENT)
    .then(String);

test("a page that opens again has the history of before, and every canvas says what it shows", async () => {
  const { page, complaints } = await openPage(browser!, DESKTOP);
  const past = await historyOf();
  await page.goto(http);
  await awaitLoad(page);
  await expect.poll(async () => (await historyOf()).at.length, PATIENT).toBeGreaterThan(past.at.length + 2);
  await page.reload();
  // At once, not after the seconds that a new history would take.
  expect(await chartWords(page)).toMatch(/resnet50 [\d.,]+, between/);
  const { at } = await historyOf();
  expect(at[0]).toBe(past.at[0]);
  const canvases = page.locator("canvas");
  // Four charts are there at once, and the timeline with the first batches that it hears of.
  await expect.poll(() => canvases.count(), PATIENT).toBe(5);
  for (const canvas of await canvases.all()) {
    expect(await canvas.getAttribute("role")).toBe("img");
    expect((await canvas.getAttribute("aria-label"))?.length).toBeGreaterThan(20);
  }

  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  expect(await page.evaluate("document.activeElement.id")).toBe("content");
  expect(complaints).toEqual([]);
  await page.context().close();
});

/** The history as a page that opens gets it. */
async function historyOf(): Promise<FeedHistory> {
  const stop = new AbortController();
  const response = await fetch(`${http}/console/feed`, { signal: stop.signal });
  let text = "";
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    if (!text.includes("event: state\n")) continue;
    stop.abort();
    const dataOf = (name: string): string[] =>
      [...text.matchAll(new RegExp(`event: ${name}\\ndata: (.*)\\n`, "g"))].map(([, data]) => data!);
    const { at } = JSON.parse(dataOf("history")[0]!) as FeedHistory;
    const models = dataOf("historyModel").map((data) => JSON.parse(data) as FeedHistory["models"][number]);
    return { at, models };
  }
  throw new Error("the feed ended before it had a history");
}

test("a phone shows refusals without scrolling: their rate on every view, causes and texts on two", async () => {
  const { page, complaints } = await openPage(browser!, PHONE);
  const refusing = setInterval(() => void ask("yolo", { "tutti-slo": "40ms" }), 200);
  try {
    await page.goto(http);
    await awaitLoad(page);
    await page.locator(".totals dt", { hasText: "refused" }).waitFor();
    const line = page.getByRole("region", { name: "Refusals" });
    await line.getByText("deadline infeasible").waitFor(PATIENT);
    expect(await bottomOf(line)).toBeLessThan(PHONE.viewport!.height);
    await line.getByRole("link", { name: "Refused" }).click();
    const first = page.getByRole("region", { name: "Table: Refusals" }).getByRole("row").nth(1);
    await first.waitFor(PATIENT);
    expect(await bottomOf(first)).toBeLessThan(PHONE.viewport!.height);
    expect(complaints).toEqual([]);
  } finally {
    clearInterval(refusing);
    await page.context().close();
  }
});

test("a refusal is found by its publisher's id, with its application, and leads to its trace", async () => {
  const { page, complaints } = await openPage(browser!, DESKTOP);
  const trace = "7d1ec3f1b0a64d2a8a2f0f2f6c1d9e01";
  await page.goto(`${http}/#refusals`);
  await ask("yolo", { "tutti-slo": "40ms", traceparent: `00-${trace}-00f067aa0ba902b7-01` });
  const rows = page.getByRole("region", { name: "Table: Refusals" }).getByRole("row");
  await page.getByRole("searchbox", { name: "Search" }).fill(trace, PATIENT);
  const found = rows.filter({ hasText: trace });
  await found.getByRole("cell", { name: "e2e", exact: true }).waitFor(PATIENT);
  expect(await rows.count()).toBe(2); // the head is one
  if (jaeger !== undefined) {
    await expect.poll(async () => (await fetch(`${http}/console/traces/${trace}`)).status, PATIENT).toBe(200);
    await found.getByRole("link").click();
    await page.getByRole("heading", { name: /^gateway yolo/ }).waitFor(PATIENT);
  }
  await page.goto(`${http}/#refusals`);
  await keepScreenshot(page, "console-refusal-found");
  expect(complaints).toEqual([]);
  await page.context().close();
});

/** Asks in one step: a row that is looked up first may be drawn anew before it is measured. */
const bottomOf = (element: Locator): Promise<number> =>
  element.evaluate((shown) => shown.getBoundingClientRect().bottom);

test("a process is restarted from the page by its one button, after a question, by who has the token", async () => {
  const { page, complaints } = await openPage(browser!, DESKTOP);
  await page.goto(`${http}/#actors`);
  const rows = page.getByRole("region", { name: "Table: Actors" });
  for (const role of ["gateway", "ingress", "batcher", "ranker", "executor", "planner", "profiler", "jobs"])
    await rows.getByRole("cell", { name: role, exact: true }).waitFor(PATIENT);
  // The node has seven roles, and one restart.
  expect(await rows.getByRole("button").count()).toBe(2);
  const button = page.getByRole("button", { name: /^Restart executor-0 \w+$/ });
  await button.waitFor(PATIENT);
  const before = await button.getAttribute("aria-label");
  await button.click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Admin token").fill(TOKEN);
  await dialog.getByText(/admin token: .*--admin-token/).waitFor();
  await keepScreenshot(page, "console-restart");
  await dialog.getByLabel("Admin token").press("Enter");
  await dialog.getByText(/was restarted/).waitFor(PATIENT);
  await page.keyboard.press("Escape");
  await expect
    .poll(
      () =>
        page
          .getByRole("button", { name: /^Restart executor-0 \w+$/ })
          .last()
          .getAttribute("aria-label"),
      PATIENT,
    )
    .not.toBe(before);
  await expect.poll(() => page.getByRole("button", { name: before ?? "" }).count(), PATIENT).toBe(0);
  await page.getByRole("heading", { name: "What was done from here" }).waitFor();
  expect(complaints).toEqual([]);
  await page.context().close();
});

test("a request's trace is drawn from its spans, by its publisher's own id, and leads to its batch", async (context) => {
  if (jaeger === undefined) context.skip("no Jaeger is here; `npm run jaeger` brings one, in one to three minutes");
  const id = "4bf92f3577b34da6a3ce929d0e0e4736";
  await ask("resnet50", { traceparent: `00-${id}-00f067aa0ba902b7-01` });
  const { page, complaints } = await openPage(browser!, DESKTOP);
  // Spans leave their processes a moment later: until then the console answers that there is no such trace.
  await expect.poll(async () => (await fetch(`${http}/console/traces/${id}`)).status, PATIENT).toBe(200);
  await page.goto(`${http}/#traces`);
  await page.getByLabel("Trace", { exact: true }).fill(id);
  await page.keyboard.press("Enter");
  const spans = page.locator(".waterfall button.span");
  await spans.first().waitFor(PATIENT);
  const run = spans.filter({ hasText: /^run/ });
  while ((await run.count()) === 0) {
    // The ingress' spans may arrive after the gateway's.
    await page.getByLabel("Trace", { exact: true }).press("Enter");
    await spans.first().waitFor(PATIENT);
  }
  for (const name of ["gateway resnet50", "wait", "grant", "pull", "push", "answer"])
    expect(await spans.filter({ hasText: name }).count(), name).toBeGreaterThan(0);
  await run.first().click();
  await keepScreenshot(page, "console-trace");
  expect(await violations(page)).toEqual([]);
  await page
    .getByRole("button", { name: /^To the trace that it is linked with/ })
    .first()
    .click();
  await page.getByRole("heading", { name: /^batch resnet50/ }).waitFor(PATIENT);
  expect(complaints).toEqual([]);
  await page.context().close();
});

test("jobs have a table while there are any: what waits and when it ends, and what was given up for which reason", async () => {
  const { page, complaints } = await openPage(browser!, DESKTOP);
  await page.goto(http);
  await awaitLoad(page);
  const table = page.getByRole("region", { name: "Table: Background jobs" });
  expect(await table.count()).toBe(0);
  const tutti = await connect({ servers: up!.url, app: "e2e" });
  await Promise.all(
    Array.from({ length: JOBS }, (_, i) => tutti.submit("bert", { x: [[i]] }, { id: `console-${i}`, deadline: "30m" })),
  );
  for (let i = 0; i < 3; i++) await tutti.submit("yolo", { x: [[1, 2, 3]] }, { id: `wrong-${i}` });
  const waiting = table.getByRole("row", { name: /^bert/ });
  await waiting.getByText(/^in \d+ (s|min), \d\d:\d\d$/).waitFor(PATIENT);
  await table.getByRole("row", { name: /^yolo/ }).getByText("3 invalid input").waitFor(PATIENT);
  await tutti.close();
  expect(complaints).toEqual([]);
  await page.context().close();
});

const LOOKS: readonly (readonly [look: string, options: BrowserContextOptions, views: readonly string[]])[] = [
  ["light", DESKTOP, ["Live", "Actors", "Plan", "Refusals", "Traces", "Simulator"]],
  ["dark", { ...DESKTOP, colorScheme: "dark" }, ["Live", "Refusals"]],
  ["phone", PHONE, ["Live", "Actors", "Refusals"]],
];

test.each(LOOKS)("views are accessible, fit, and complain of nothing (%s)", async (look, options, views) => {
  const { page, complaints } = await openPage(browser!, options);
  await page.goto(http);
  await awaitLoad(page);
  for (const view of views) {
    await page.getByRole("navigation").getByRole("link", { name: view }).click();
    await page.locator(`nav a[aria-current=page]`, { hasText: view }).waitFor();
    if (view === "Simulator") await replay(page);
    if (view === "Traces" && jaeger !== undefined)
      await page.getByRole("region", { name: "Table: Traces" }).waitFor(PATIENT);
    await keepScreenshot(page, `console-${look}-${view.toLowerCase()}`);
    expect(await violations(page), view).toEqual([]);
    expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth"), view).toBeLessThanOrEqual(0);
  }
  expect(complaints).toEqual([]);
  await page.context().close();
});

/**
 * Replays the recording and waits for its picture. The page lays out the canvas first: its label may be there before
 * its bars.
 */
async function replay(page: Page): Promise<void> {
  await page.getByLabel("Accelerators").fill("2");
  await page.getByRole("button", { name: "Replay" }).click();
  await page.getByRole("button", { name: /^2 accelerators, default$/ }).waitFor(PATIENT);
  await page.getByRole("img", { name: /^Accelerator timeline: \d+ batches of/ }).waitFor(PATIENT);
  await expect.poll(() => colouredPoints(page), PATIENT).toBeGreaterThan(100);
}

/** Accessibility violations by axe. The debugger injects it, since the page's own policy lets no script in. */
async function violations(page: Page): Promise<string[]> {
  await page.evaluate(await readFile(AXE, "utf8"));
  return page.evaluate(`axe.run().then(({ violations }) =>
    violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => id + ": " + html.slice(0, 200))))`);
}
