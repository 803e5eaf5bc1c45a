/**
 * Traces in a real Jaeger, and `tutti doctor` on the same cluster. A trace shows a request's path from its publisher to
 * its answer (docs/observability.md).
 */
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Tutti, connect } from "@tutti/client";
import { type OtelTelemetry, createTelemetry } from "@tutti/telemetry-otel";
import { type TestContext, afterAll, beforeAll, expect, test, vi } from "vitest";
import { type Jaeger, findJaeger } from "../../infra/jaeger/jaeger.mjs";
import { thisHost } from "../../infra/setup/host.mjs";
import { findChromium, keepScreenshot, launchChromium, openPage } from "../fixtures/chromium.ts";
import { ROOT, TuttiUp } from "./tutti-up.ts";

/** A reference as `/api/traces` returns it. */
interface Reference {
  readonly refType: "CHILD_OF" | "FOLLOWS_FROM";
  readonly traceID: string;
  readonly spanID: string;
}
interface Field {
  readonly key: string;
  readonly value: unknown;
}
interface JaegerSpan {
  readonly traceID: string;
  readonly spanID: string;
  readonly operationName: string;
  readonly processID: string;
  readonly references: readonly Reference[];
  readonly startTime: number;
  readonly duration: number;
  readonly tags: readonly Field[];
  readonly logs: readonly { readonly fields: readonly Field[] }[];
}
interface JaegerTrace {
  readonly traceID: string;
  readonly spans: readonly JaegerSpan[];
  readonly processes: Readonly<Record<string, { readonly serviceName: string }>>;
}

const jaeger: Jaeger | undefined = findJaeger(thisHost(), join(ROOT, ".tutti"));
/** Exports leave once a second, so traces take a while. */
const WITHIN = { timeout: 20_000, interval: 200 };
const PARTS = ["wait", "grant", "pull", "run", "push", "answer"];
/** A part that is there where the inputs were ready before the accelerator: by microseconds mostly. */
const ACCELERATOR_WAIT = "wait for the accelerator";

let folder: string;
let up: TuttiUp | undefined;
let client: Tutti;
let telemetry: OtelTelemetry;
let [page, http] = ["", ""];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-traces-"));
  const profiles = join(folder, "profiles.yaml");
  await writeFile(profiles, "models: [{ name: calm, sloMs: 10000, batchMax: 8, alphaMs: 0.5, betaMs: 3 }]\n");
  if (jaeger !== undefined) vi.stubEnv("TUTTI_JAEGER", jaeger.path);
  vi.stubEnv("TUTTI_TRACE_RATIO", "0");
  const traced = jaeger === undefined ? [] : ["--jaeger"];
  up = await TuttiUp.start([...traced, "--emulate", profiles, "--gpus", "1", "--policy", "eager"]);
  vi.unstubAllEnvs();
  if (jaeger === undefined) return;
  const told = await up.next("jaeger");
  page = String(told["url"]);
  http = String((await up.next("child-ready", ({ http: at }) => at !== undefined))["http"]);
  telemetry = await createTelemetry({ service: "shop", instance: "test", otlp: String(told["otlp"]), traceRatio: 1 });
  client = await connect({ servers: up.url, app: "shop", telemetry });
}, 120_000);
afterAll(async () => {
  await client?.close();
  await up?.stop();
  await telemetry?.close();
  if (folder !== undefined) await rm(folder, { recursive: true, force: true });
});

/** Skips a test where Jaeger is missing: building one takes a minute or more, so no test does it. */
function needsJaeger(ctx: TestContext): void {
  if (jaeger === undefined) ctx.skip("no Jaeger is here; `npm run jaeger` brings one, in one to three minutes");
}

async function tracesOf(query: string): Promise<JaegerTrace[]> {
  const answer = await fetch(`${page}/api/traces${query}`);
  const { data } = (await answer.json()) as { data: JaegerTrace[] | null };
  return data ?? [];
}
async function traceWith(query: string, ...operations: readonly string[]): Promise<JaegerTrace> {
  return vi.waitFor(async () => {
    const [trace] = await tracesOf(query);
    expect(trace?.spans.map(({ operationName }) => operationName)).toEqual(expect.arrayContaining([...operations]));
    return trace!;
  }, WITHIN);
}
const serviceOf = (trace: JaegerTrace, span: JaegerSpan): string => trace.processes[span.processID]?.serviceName ?? "";
const named = (trace: JaegerTrace, name: string): JaegerSpan[] =>
  trace.spans.filter(({ operationName }) => operationName === name);
const parentOf = (span: JaegerSpan): string | undefined =>
  span.references.find(({ refType }) => refType === "CHILD_OF")?.spanID;
const valueOf = (fields: readonly Field[], key: string): unknown => fields.find((field) => field.key === key)?.value;
function ask(headers: Record<string, string> = {}): Promise<Response> {
  const inputs = [{ name: "x", shape: [1, 1], datatype: "FP32", data: [1] }];
  return fetch(`${http}/v2/models/calm/infer`, { method: "POST", body: JSON.stringify({ inputs }), headers });
}

/** Checks the ingress's span: its children are in order, with links from its run to its batch and back. */
async function expectWholeStory(trace: JaegerTrace): Promise<JaegerSpan> {
  const ingress = trace.spans.find(
    (span) => serviceOf(trace, span) === "tutti-ingress" && /^infer/.test(span.operationName),
  );
  const all = trace.spans.filter((span) => parentOf(span) === ingress?.spanID);
  const parts = all.filter(({ operationName }) => operationName !== ACCELERATOR_WAIT);
  parts.sort((a, b) => PARTS.indexOf(a.operationName) - PARTS.indexOf(b.operationName));
  expect(parts.map(({ operationName }) => operationName)).toEqual(PARTS);
  for (let i = 1; i < parts.length; i++) {
    // Both ends of a boundary are the same reading; between processes of one machine, clocks differ by less than this.
    expect(parts[i]!.startTime - (parts[i - 1]!.startTime + parts[i - 1]!.duration)).toBeGreaterThan(-5_000);
  }
  const link = parts[3]!.references.find(({ refType }) => refType === "FOLLOWS_FROM")!;
  const batchTrace = await traceWith(`/${link.traceID}`, "batch calm");
  const batch = batchTrace.spans.find(({ spanID }) => spanID === link.spanID)!;
  expect([batch.operationName, serviceOf(batchTrace, batch)]).toEqual(["batch calm", "tutti-executor"]);
  expect(batch.references.map(({ spanID }) => spanID)).toContain(ingress!.spanID);
  return ingress!;
}

test("a request of the client makes one trace: publisher, ingress, its way to the accelerator and back, and its batch", async (ctx) => {
  needsJaeger(ctx);
  await client.infer("calm", { x: [[1]] });
  const trace = await traceWith("?service=shop&limit=10", ...PARTS);
  const ingress = await expectWholeStory(trace);
  const publisher = trace.spans.find((span) => serviceOf(trace, span) === "shop");
  expect(publisher?.spanID).toBe(parentOf(ingress));
  expect(trace.spans.filter(({ operationName }) => operationName !== ACCELERATOR_WAIT)).toHaveLength(2 + PARTS.length);
});

test("a request over HTTP makes one trace, which goes on from its caller's, through the gateway", async (ctx) => {
  needsJaeger(ctx);
  const [traceId, caller] = [randomBytes(16).toString("hex"), randomBytes(8).toString("hex")];
  expect((await ask({ traceparent: `00-${traceId}-${caller}-01` })).status).toBe(200);
  const trace = await traceWith(`/${traceId}`, "gateway calm", ...PARTS);
  const ingress = await expectWholeStory(trace);
  const gateway = named(trace, "gateway calm")[0]!;
  // The gateway and the ingress share a process: nothing is published between them.
  expect(parentOf(ingress)).toBe(gateway.spanID);
  expect(serviceOf(trace, gateway)).toBe("tutti-gateway");
  expect(parentOf(gateway)).toBe(caller);
});

test("its page shows the trace in a browser", async (ctx) => {
  needsJaeger(ctx);
  if (jaeger?.hasPage !== true) ctx.skip("this Jaeger has no page: go built it from its module, which has none");
  const chromium = findChromium();
  if ("missing" in chromium) return ctx.skip(chromium.missing);
  const traceId = randomBytes(16).toString("hex");
  expect((await ask({ traceparent: `00-${traceId}-${"1".repeat(16)}-01` })).status).toBe(200);
  await traceWith(`/${traceId}`, "gateway calm", ...PARTS);
  const browser = await launchChromium(chromium.path);
  try {
    const { page: tab } = await openPage(browser, { viewport: { width: 1280, height: 860 } });
    await tab.goto(`${page}/trace/${traceId}`);
    for (const name of ["gateway calm", ...PARTS]) await tab.getByText(name).first().waitFor();
    await keepScreenshot(tab, "jaeger-trace");
  } finally {
    await browser.close();
  }
});

test("a refusal is there with its reason though head sampling is 0, and a request that ends well is not", async (ctx) => {
  needsJaeger(ctx);
  const well = Array.from({ length: 3 }, () => randomBytes(16).toString("hex"));
  for (const id of well) expect((await ask({ traceparent: `00-${id}-${"1".repeat(16)}-00` })).status).toBe(200);
  expect((await ask({ "tutti-slo": "2ms" })).status).toBe(422);
  const tags = encodeURIComponent(JSON.stringify({ "tutti.outcome": "TUTTI_DEADLINE_INFEASIBLE" }));
  const trace = await traceWith(`?service=tutti-ingress&limit=10&tags=${tags}`, "gateway calm", "infer calm");
  const ingress = trace.spans.find((span) => serviceOf(trace, span) === "tutti-ingress")!;
  const refused = ingress.logs.map(({ fields }) => fields).find((fields) => valueOf(fields, "event") === "refused")!;
  expect(valueOf(refused, "code")).toBe("TUTTI_DEADLINE_INFEASIBLE");
  expect(String(valueOf(refused, "reason"))).toMatch(/ms/);
  const recorded = (await Promise.all(well.map((id) => tracesOf(`/${id}`)))).flat();
  // On a busy machine one of them may have been told again, which is worth recording.
  for (const { spans } of recorded)
    expect(spans.flatMap(({ logs }) => logs.map(({ fields }) => valueOf(fields, "event")))).toContain("told again");
  expect(recorded.length).toBeLessThan(well.length);
});

test("the doctor sees the cluster that runs here, may do what an operator may, and finds nothing that must be mended", async () => {
  const { code, stdout, stderr } = await up!.command("doctor", "--json");
  const { findings } = JSON.parse(stdout) as { findings: { check: string; state: string; found: string }[] };
  const found = new Map(findings.map((finding) => [finding.check, finding]));
  expect([code, stderr, findings.filter(({ state }) => state === "fail")]).toEqual([0, "", []]);
  for (const check of ["Node", "nats-server", "provider cpu", "connection", "rights", "JetStream"])
    expect(found.get(check)).toMatchObject({ state: "ok" });
  expect(found.get("JetStream")?.found).toContain("1 models, of which 1 are ready");
  expect(found.get("actors")?.found).toMatch(/are there; an ingress answered after/);
  expect(found.get("clocks")?.found).toContain("on 1 host");
});
