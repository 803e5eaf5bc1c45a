/** The console over HTTP, of a gateway among actors that only send heartbeats and reports. */
import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { FeedEvents } from "@tutti/console";
import { type StatsReported, batchRow } from "@tutti/protocol";
import { type ThreadId, gpuId, instant, micros } from "@tutti/units";
import { afterAll, beforeAll, expect, test } from "vitest";
import { GatewayScene, TOKEN, twice } from "../testing/gateway-scene.ts";

let folder: string;
let scene: GatewayScene;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tutti-console-"));
  mkdirSync(join(folder, "assets"));
  writeFileSync(join(folder, "index.html"), "<title>Tutti</title>");
  writeFileSync(join(folder, "assets/index-abc.js"), "export {};");
  scene = await GatewayScene.open({ consoleFolder: folder });
  scene.populate();
});
afterAll(async () => {
  await scene.close();
  rmSync(folder, { recursive: true });
});

/** As `fetch`, which sets Host and Origin itself, and normalises paths. */
function ask(path: string, headers: Record<string, string> = {}): Promise<number> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(scene.addresses.http);
    request({ hostname, port, path, headers }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    })
      .on("error", reject)
      .end();
  });
}
const post = async (path: string, body: string, headers: Record<string, string> = {}) => {
  const response = await fetch(scene.addresses.http + path, { method: "POST", body, headers });
  return { status: response.status, body: (await response.json()) as { error?: string } };
};

test("the page comes with a policy that lets in nothing from elsewhere, and its files may be kept", async () => {
  const page = await fetch(`${scene.addresses.http}/`);
  expect([page.status, await page.text()]).toEqual([200, "<title>Tutti</title>"]);
  const policy = page.headers.get("content-security-policy") ?? "";
  expect(policy).toContain("default-src 'none'");
  expect(policy).not.toMatch(/unsafe|https?:|\*/);
  expect(page.headers.get("cache-control")).toBe("no-cache");
  const script = await fetch(`${scene.addresses.http}/assets/index-abc.js`);
  expect([script.status, script.headers.get("content-type")]).toEqual([200, "text/javascript; charset=utf-8"]);
  expect(script.headers.get("cache-control")).toContain("immutable");
  for (const path of [
    "/assets/none.js",
    "/assets/../index.html",
    "/assets/%2e%2e/index.html",
    "/assets/..%2findex.html",
    "/console/none",
  ])
    expect(await ask(path), path).toBe(404);
});

test("a gateway whose page was not built says so in words, and serves everything else", async () => {
  const bare = await GatewayScene.open({ consoleFolder: join(folder, "nothing") });
  const page = await fetch(`${bare.addresses.http}/`);
  expect(page.status).toBe(503);
  expect(await page.text()).toContain("npm run build -w @tutti/console");
  expect((await fetch(`${bare.addresses.http}/v2/health/live`)).status).toBe(200);
  await bare.close();
});

test("a page of another site, and a name that only points here, get nothing (CD1, CD2)", async () => {
  expect(await ask("/", { origin: "https://evil.example" })).toBe(403);
  expect(await ask("/console/feed", { host: "evil.example" })).toBe(403);
  expect(await ask("/", { host: "localhost:8000" })).toBe(200);
  expect(await ask("/", { host: "[::1]:8000" })).toBe(200);
  for (const path of ["/console/feed", "/console/traces"])
    for (const site of ["cross-site", "same-site"])
      expect(await ask(path, { "sec-fetch-site": site, "sec-fetch-mode": "navigate" }), `${path} ${site}`).toBe(403);
  expect(await ask("/", { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate" })).toBe(200);
});

test("nobody restarts anything without the token, and a gateway without an operator's rights nothing at all", async () => {
  const actor = JSON.stringify({ actor: "abc" });
  expect((await post("/console/restart", actor)).status).toBe(401);
  expect((await post("/console/restart", actor, { cookie: `token=${TOKEN}` })).status).toBe(401);
  const { status, body } = await post("/console/restart", actor, { authorization: `Bearer ${TOKEN}` });
  expect([status, body.error]).toEqual([403, expect.stringContaining("--repository-creds")]);
  expect(await ask("/console/restart")).toBe(405);
});

test("a question that is too long, no JSON or no object is refused and nothing more", async () => {
  const wrong = ["", "{", "[1", "null", "7", JSON.stringify({ minutes: 1, gpus: 1, policy: "x".repeat(5_000) })];
  for (const body of wrong) expect((await post("/console/replay", body)).status, body.slice(0, 20)).toBe(400);
});

/** Reads events until `isEnough`. */
async function listen(isEnough: (events: readonly (readonly [name: string, value: unknown])[]) => boolean) {
  const stop = new AbortController();
  const response = await fetch(`${scene.addresses.http}/console/feed`, { signal: stop.signal });
  const events: [name: string, value: unknown][] = [];
  let text = "";
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    const whole = text.split("\n\n");
    text = whole.pop() ?? "";
    for (const event of whole) {
      const match = /event: (\w+)\ndata: (.*)/.exec(event);
      if (match !== null) events.push([match[1]!, JSON.parse(match[2]!)]);
    }
    if (isEnough(events)) break;
  }
  stop.abort();
  return events;
}
const valuesOf = <Name extends keyof FeedEvents>(events: readonly (readonly [string, unknown])[], name: Name) =>
  events.filter(([one]) => one === name).map(([, value]) => value as FeedEvents[Name]);

test("the feed tells who is there, batches as batchers tell of them, and refusals; a replay runs what came", async () => {
  const spec = await scene.serve(twice);
  const thread = (spec.number * 64) as ThreadId;
  const told = (): Partial<StatsReported> => {
    const at = scene.now();
    const ago = (us: number) => instant(at - us);
    const batch = {
      thread,
      gpu: gpuId(0),
      size: 3,
      failed: 0,
      firstAt: ago(9_000),
      grantedAt: ago(5_000),
      startedAt: ago(4_000),
      finishedAt: ago(1_000),
    };
    return { batches: { left: 0, rows: batchRow(batch, at) } };
  };
  scene.join("batcher", {}, told);
  scene.join("ingress", {}, () => ({
    arrivals: {
      every: 1,
      left: 0,
      streams: [{ model: "twice", app: "shop", slo: micros(50_000) }],
      rows: [0, 5_000, 0, 4_000],
    },
    refusals: [{ at: scene.now(), model: "twice", code: "TUTTI_OVERLOADED", text: "too much" }],
  }));
  const events = await listen((heard) => {
    const names = new Set(heard.map(([name]) => name));
    const { actors = [], gpus = [] } = valuesOf(heard, "state").at(-1) ?? {};
    const isEveryone = actors.length >= 5 && gpus.length > 0; // heartbeats come in any order
    return names.has("batches") && valuesOf(heard, "refusals").flat().length > 0 && isEveryone;
  });
  expect(events[0]).toEqual([
    "hello",
    { cluster: "main", policies: expect.arrayContaining(["default"]) as string[], restart: "closed", traces: false },
  ]);
  const state = valuesOf(events, "state").at(-1)!;
  expect(state.models[0]).toMatchObject({ name: "twice", number: spec.number, sloMs: 2_000, state: "ready" });
  expect(state.gpus).toMatchObject([{ gpu: 0, serving: true }]);
  expect(state.record.arrivals).toBeGreaterThan(0);
  const { rows } = valuesOf(events, "batches")[0]!;
  expect(rows.slice(0, 4)).toEqual([spec.number, 0, 3, 0]);
  expect([rows[4]! - rows[6]!, rows[6]! - rows[7]!]).toEqual([5_000, 3_000]);
  expect(valuesOf(events, "refusals").flat()[0]).toMatchObject({ model: "twice", text: "too much" });

  // A page that opens later has the past, second by second.
  let whole: Awaited<ReturnType<typeof listen>>;
  let history: FeedEvents["history"] | undefined;
  do {
    whole = await listen((heard) => heard.some(([name]) => name === "state"));
    [history] = valuesOf(whole, "history");
    // Until the server sees that the first page has gone, others share the history that it got, which may be empty.
  } while (history!.at.length === 0);
  expect(history!.at).toEqual([...history!.at].sort((a, b) => a - b));
  const [twiceOnes] = valuesOf(whole, "historyModel");
  expect(twiceOnes).toMatchObject({ name: "twice", slo: 2_000 });
  expect(twiceOnes!.queue).toHaveLength(history!.at.length);

  const replay = await post("/console/replay", JSON.stringify({ minutes: 1, gpus: 2, policy: "default" }));
  // Its model was not measured, so no arrival can be replayed.
  expect([replay.status, replay.body.error]).toEqual([400, expect.stringContaining("nothing to replay")]);
});

test("jobs are told by model: backlog, rate, expected end and dead letters by cause, and nothing where there are none", async () => {
  const before = await listen((heard) => heard.some(([name]) => name === "state"));
  expect(valuesOf(before, "state").at(-1)).toMatchObject({ jobs: [], jobsLeft: 0 });
  const report = (rate: number) => () => ({
    figures: { done: 1, "rate:twice": rate, "queued:twice": 90, "queued:idle": 0, "dead:gone:NOT_FOUND": 2 },
  });
  scene.join("jobs", {}, report(1));
  scene.join("jobs", {}, report(2));
  const events = await listen((heard) => valuesOf(heard, "state").at(-1)?.jobs[0]?.rate === 3);
  expect(valuesOf(events, "state").at(-1)!.jobs).toEqual([
    { model: "twice", queued: 90, rate: 3, endsInS: 30, dead: {} },
    { model: "gone", queued: 0, rate: 0, endsInS: 0, dead: { TUTTI_NOT_FOUND: 2 } },
  ]);
});

test("a report whose batches, arrivals or refusals are none is not believed, and the feed goes on (T8)", async () => {
  const before = await listen((heard) => heard.some(([name]) => name === "state"));
  expect(before.length).toBeGreaterThan(0);
  const wrong = {
    batches: { left: 0, rows: [1, 2, 3] },
    arrivals: { every: 0 },
    refusals: "none",
  } as unknown as Partial<StatsReported>;
  scene.join("batcher", {}, () => wrong);
  const count = valuesOf(before, "state").at(-1)!.actors.length;
  const events = await listen((heard) => (valuesOf(heard, "state").at(-1)?.actors.length ?? 0) > Math.min(count, 5));
  expect(valuesOf(events, "state").length).toBeGreaterThan(0);
});
