import { spawnSync } from "node:child_process";
import { stripVTControlCharacters } from "node:util";
import { afterEach, expect, test } from "vitest";
import { type SpanContext, formatTraceparent, parseTraceparent } from "@tutti/ports/telemetry";
import { instant } from "@tutti/units";
import { type Collector, startCollector } from "../fixtures/otlp-collector.ts";
import { KEPT_PER_SECOND } from "./otel-tracer.ts";
import { CLOSE_MS, type OtelTelemetry, type TelemetryOptions, createTelemetry } from "./index.ts";

const at = (offset = 0) => instant(1_795_233_600_123_456 + offset);
const context = (digit: string, sampled = true): SpanContext => ({
  traceId: digit.repeat(32),
  spanId: digit.repeat(16),
  sampled,
});

let collector: Collector | undefined;
afterEach(() => collector?.close());

async function open(options: Partial<TelemetryOptions> = {}) {
  const lines: string[] = [];
  const telemetry = await createTelemetry({
    service: "tutti-executor",
    instance: "k3v",
    destination: { write: (line) => void lines.push(line) },
    environment: {},
    ...options,
  });
  const parsed = () => lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  return { telemetry, lines, parsed };
}
async function openTraced(
  options: Partial<TelemetryOptions> = {},
): Promise<{ telemetry: OtelTelemetry; collector: Collector }> {
  collector = await startCollector();
  return { telemetry: (await open({ otlp: collector.url, ...options })).telemetry, collector };
}

test("a span arrives at the collector with its times to the microsecond, attributes, events, links, parent and error", async () => {
  const { telemetry, collector } = await openTraced();
  const { tracer } = telemetry;
  const request = tracer.start("infer mlp", {
    kind: "consumer",
    at: at(),
    parent: context("a"),
    attributes: { "tutti.model": "mlp", nothing: undefined },
  });
  const batch = tracer.start("batch mlp", {
    kind: "internal",
    at: at(2_000),
    links: [request.context, context("b")],
    attributes: { "tutti.gpu": 3, "tutti.late": false, share: 0.25 },
  });
  batch.event("run", at(2_500), { rows: 2 });
  batch.set({ "tutti.batch_size": 2 });
  batch.end(at(7_001), "device lost");
  request.end(at(8_000));
  await telemetry.close();

  const spans = Object.fromEntries(collector.spans.map((span) => [span.name, span]));
  expect(spans["infer mlp"]).toEqual({
    service: "tutti-executor",
    instance: "k3v",
    traceId: "a".repeat(32),
    spanId: request.context.spanId,
    parentSpanId: "a".repeat(16),
    name: "infer mlp",
    kind: 5,
    startUs: at(),
    endUs: at(8_000),
    attributes: { "tutti.model": "mlp" },
    events: [],
    links: [],
    error: undefined,
  });
  expect(spans["batch mlp"]).toMatchObject({
    traceId: batch.context.traceId,
    parentSpanId: "",
    kind: 1,
    startUs: at(2_000),
    endUs: at(7_001),
    attributes: { "tutti.gpu": 3, "tutti.late": false, share: 0.25, "tutti.batch_size": 2 },
    events: [{ name: "run", atUs: at(2_500) }],
    links: [
      { traceId: "a".repeat(32), spanId: request.context.spanId },
      { traceId: "b".repeat(32), spanId: "b".repeat(16) },
    ],
    error: "device lost",
  });
  expect(parseTraceparent(formatTraceparent(batch.context))).toEqual(batch.context);
});

test("each role of a process is a service of its own, within the bounds of the process", async () => {
  const { telemetry, collector } = await openTraced({ service: "tutti-node", instance: "n1", traceRatio: 0 });
  const [gateway, ingress] = ["gateway", "ingress"].map((role) =>
    telemetry.of({ service: `tutti-${role}`, instance: `${role}-1` }),
  );
  const whole = gateway!.tracer.start("gateway mlp", { kind: "server", at: at(), parent: context("a") });
  const part = ingress!.tracer.start("infer mlp", { kind: "consumer", at: at(1), parent: whole.context });
  part.end(at(2));
  whole.end(at(3));
  for (let i = 0; i < KEPT_PER_SECOND; i++)
    for (const { tracer } of [gateway!, ingress!, telemetry]) {
      const span = tracer.start("refused", { kind: "server", at: at() });
      span.keep();
      span.end(at(1));
    }
  expect(gateway!.log).toBe(telemetry.log);
  await telemetry.close();
  const byName = (name: string) => collector.spans.filter((span) => span.name === name);
  expect(byName("gateway mlp")[0]).toMatchObject({ service: "tutti-gateway", instance: "gateway-1" });
  expect(byName("infer mlp")[0]).toMatchObject({
    ...{ service: "tutti-ingress", instance: "ingress-1" },
    ...{ traceId: "a".repeat(32), parentSpanId: whole.context.spanId },
  });
  // The allowance is the process's: three services don't keep three times as many (a second may begin in between).
  expect(new Set(byName("refused").map(({ service }) => service)).size).toBe(3);
  expect(byName("refused").length).toBeLessThanOrEqual(2 * KEPT_PER_SECOND);
});

test("a batch of a thousand requests keeps all its links", async () => {
  const { telemetry, collector } = await openTraced();
  const links = Array.from({ length: 1_000 }, (_, i) => ({
    ...context("c"),
    spanId: (i + 1).toString(16).padStart(16, "0"),
  }));
  telemetry.tracer.start("batch", { kind: "internal", at: at(), links }).end(at(1));
  await telemetry.close();
  expect(collector.spans[0]?.links).toHaveLength(1_000);
});

test("what is traced is decided at the head: by the parent, by a sampled link, else by the ratio", async () => {
  const { telemetry, collector } = await openTraced({ traceRatio: 0 });
  const { tracer } = telemetry;
  expect(tracer.enabled).toBe(true);
  const spans = {
    alone: tracer.start("alone", { kind: "server", at: at() }),
    "sampled parent": tracer.start("sampled parent", { kind: "server", at: at(), parent: context("a") }),
    "unsampled parent": tracer.start("unsampled parent", { kind: "server", at: at(), parent: context("b", false) }),
    "sampled link": tracer.start("sampled link", {
      kind: "internal",
      at: at(),
      links: [context("c", false), context("d")],
    }),
    "unsampled link": tracer.start("unsampled link", { kind: "internal", at: at(), links: [context("e", false)] }),
  };
  for (const span of Object.values(spans)) span.end(at(1));
  await telemetry.close();
  expect(collector.spans.map(({ name }) => name)).toEqual(["sampled parent", "sampled link"]);
  expect(Object.values(spans).map((span) => span.context.sampled)).toEqual([false, true, false, true, false]);
});

test("a span that head sampling left out and that is kept before its end arrives whole, under the ids that others know", async () => {
  const { telemetry, collector } = await openTraced({ traceRatio: 0 });
  const { tracer } = telemetry;
  const parent = context("b", false);
  const kept = tracer.start("refused", { kind: "consumer", at: at(), parent, attributes: { "tutti.model": "mlp" } });
  const known = kept.context;
  expect(known).toMatchObject({ traceId: parent.traceId, sampled: false });
  kept.event("accepted", at(1), { "tutti.term": 3 });
  const before = tracer.start("before", { kind: "internal", at: at(1), parent: kept.context });
  kept.keep();
  expect(kept.context).toEqual({ ...known, sampled: true });
  const after = tracer.start("after", { kind: "internal", at: at(2), parent: kept.context });
  for (const span of [before, after]) span.end(at(3));
  kept.event("refused", at(3), { code: "TUTTI_OVERLOADED" });
  kept.end(at(4), "too much");
  tracer.start("well", { kind: "consumer", at: at(), parent }).end(at(4));
  await telemetry.close();
  expect(collector.spans.map(({ name }) => name).sort()).toEqual(["after", "refused"]);
  expect(collector.spans.find(({ name }) => name === "refused")).toMatchObject({
    spanId: known.spanId,
    parentSpanId: parent.spanId,
    attributes: { "tutti.model": "mlp" },
    events: [
      { name: "accepted", atUs: at(1) },
      { name: "refused", atUs: at(3) },
    ],
    error: "too much",
  });
});

test("of a span that may yet be kept, the first events are kept, and no more than that many", async () => {
  const { telemetry, collector } = await openTraced({ traceRatio: 0 });
  const span = telemetry.tracer.start("told again and again", { kind: "consumer", at: at() });
  for (let i = 0; i < 1_000; i++) span.event(`event ${i}`, at(i));
  span.keep();
  span.event("refused", at(1_000));
  span.end(at(1_001));
  await telemetry.close();
  const names = collector.spans[0]?.events.map(({ name }) => name);
  expect([names?.length, names?.[0], names?.at(-1)]).toEqual([33, "event 0", "refused"]);
});

test("an overload, where everything is refused, keeps so many spans a second and no more", async () => {
  const { telemetry, collector } = await openTraced({ traceRatio: 0 });
  const startedAt = performance.now();
  for (let i = 0; i < 4 * KEPT_PER_SECOND; i++) {
    const span = telemetry.tracer.start("refused", { kind: "consumer", at: at() });
    span.keep();
    span.end(at(1), "too much");
  }
  const seconds = Math.ceil((performance.now() - startedAt) / 1_000) + 1;
  await telemetry.close();
  expect(collector.spans.length).toBeGreaterThanOrEqual(KEPT_PER_SECOND);
  expect(collector.spans.length).toBeLessThanOrEqual(seconds * KEPT_PER_SECOND);
});

test("the ratio of the environment counts, and one that makes no sense is reported", async () => {
  const share = async (text: string): Promise<number> => {
    const { telemetry, collector } = await openTraced({ environment: { TUTTI_TRACE_RATIO: text } });
    for (let i = 0; i < 2_000; i++) telemetry.tracer.start("s", { kind: "server", at: at() }).end(at(1));
    await telemetry.close();
    await collector.close();
    return collector.spans.length / 2_000;
  };
  expect(Math.abs((await share("0.25")) - 0.25)).toBeLessThan(0.08);
  expect(await share("0")).toBe(0);
  const { parsed } = await open({ otlp: "http://127.0.0.1:9", environment: { TUTTI_TRACE_RATIO: "half" } });
  expect(parsed()).toMatchObject([{ level: "warn", TUTTI_TRACE_RATIO: "half" }]);
});

test("the endpoint comes from the environment too, and without one contexts pass through unrecorded", async () => {
  collector = await startCollector();
  const { telemetry } = await open({ environment: { OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/` } });
  telemetry.tracer.start("s", { kind: "server", at: at() }).end(at(1));
  await telemetry.close();
  expect(collector.spans.map(({ name }) => name)).toEqual(["s"]);

  const { tracer } = (await open()).telemetry;
  expect(tracer.enabled).toBe(false);
  expect(tracer.start("s", { kind: "server", at: at(), parent: context("a") }).context).toEqual(context("a"));
});

test("a collector that fails is reported, and one that never answers doesn't hold a process that ends", async () => {
  collector = await startCollector();
  collector.answer = 400;
  const lines: string[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  const write = (line: string): void => (lines.push(line), resolve());
  const { tracer } = (await open({ otlp: collector.url, destination: { write } })).telemetry;
  tracer.start("s", { kind: "server", at: at() }).end(at(1));
  await promise;
  expect(JSON.parse(lines[0] ?? "")).toMatchObject({ level: "warn", msg: "traces are not getting through" });
  expect(lines[0]).not.toContain('"stack');
  collector.answer = "nothing";
  const silent = await open({ otlp: collector.url });
  silent.telemetry.tracer.start("s", { kind: "server", at: at() }).end(at(1));
  const before = performance.now();
  await silent.telemetry.close();
  expect(performance.now() - before).toBeLessThan(10 * CLOSE_MS);
});

test("log lines are JSON with what identifies the process, the logger and the event", async () => {
  const { telemetry, parsed } = await open({ fields: { host: "h1" } });
  const log = telemetry.log.child({ actor: "k3v", role: "executor" });
  log.info({ model: "mlp", batch: 17, request: 4, nothing: undefined }, "batch ran");
  log.debug({}, "not shown");
  expect(parsed()).toEqual([
    {
      level: "info",
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/) as string,
      service: "tutti-executor",
      instance: "k3v",
      pid: process.pid,
      host: "h1",
      actor: "k3v",
      role: "executor",
      model: "mlp",
      batch: 17,
      request: 4,
      msg: "batch ran",
    },
  ]);
});

test("the level is the environment's, else the option's; nonsense is reported", async () => {
  const shown = async (options: Partial<TelemetryOptions>): Promise<string[]> => {
    const { telemetry, parsed } = await open(options);
    for (const level of ["debug", "info", "warn", "error"] as const) telemetry.log[level]({}, level);
    return parsed().map(({ msg }) => String(msg));
  };
  expect(await shown({})).toEqual(["info", "warn", "error"]);
  expect(await shown({ level: "error" })).toEqual(["error"]);
  expect(await shown({ level: "error", environment: { TUTTI_LOG: "debug" } })).toEqual([
    "debug",
    "info",
    "warn",
    "error",
  ]);
  expect(await shown({ level: "silent" })).toEqual([]);
  expect((await shown({ environment: { TUTTI_LOG: "loud" } }))[0]).toContain("is no log level");
});

test("secrets are shown neither in fields nor in texts, nor in traces", async () => {
  const seed = `SU${"A".repeat(56)}`;
  const { telemetry, lines } = await open();
  telemetry.log
    .child({ authorization: "Bearer abc-hidden" })
    .warn(
      { pullToken: "hidden-1", password: "hidden-2", tokens: 3, nats: "nats://joe:hidden-3@host:4222", seedLine: seed },
      `can't reach nats://joe:hidden-4@host:4222 with ${seed}`,
    );
  const line = lines.join("");
  expect(line).not.toMatch(/hidden|joe|SUAAA/);
  expect(line).toContain('"tokens":3');
  expect(line).toContain("@host:4222");

  const traced = await openTraced();
  const span = traced.telemetry.tracer.start("s", { kind: "client", at: at(), attributes: { token: "hidden-5" } });
  span.end(at(1), "refused nats://joe:hidden-6@host");
  await traced.telemetry.close();
  expect(JSON.stringify(traced.collector.spans)).not.toMatch(/hidden|joe/);
});

test("on a terminal, words of applications in a line are shown and do nothing", () => {
  const script = `
    process.stderr.isTTY = true;
    const { openLog } = await import(${JSON.stringify(new URL("pino-logger.ts", import.meta.url).href)});
    const { logger, flush } = openLog({ level: "info", base: {} });
    const evil = "a\\u001b[2J\\u0007\\nINFO: forged";
    logger.child({ app: evil }).warn({ audit: "administration", why: evil }, "refused " + evil);
    await flush();`;
  const child = spawnSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8" });
  const plain = stripVTControlCharacters(child.stderr);
  expect(child.stderr).not.toMatch(/\u001b\[2J|\u0007/);
  expect(plain.trim().split("\n")).toHaveLength(1);
  expect(plain).toContain("refused a\\u001b[2J\\u0007\\nINFO: forged");
});
