import fc from "fast-check";
import { expect, test } from "vitest";
import { instant } from "@tutti/units";
import { RecordingTelemetry, formatTraceparent, noTelemetry, parseTraceparent } from "./index.ts";

const at = instant(1_800_000_000_000_000);
const parent = { traceId: "0af7651916cd43dd8448eb211c80319c", spanId: "b7ad6b7169203331", sampled: true };

test("a trace context survives its header, and nothing malformed is taken for one", () => {
  for (const context of [parent, { ...parent, sampled: false }]) {
    expect(parseTraceparent(formatTraceparent(context))).toEqual(context);
  }
  const good = formatTraceparent(parent);
  const bad = [undefined, "", good.toUpperCase(), `${good} `, good.slice(1), good.replace("00-", "01-")];
  const zeros = [good.replace(parent.traceId, "0".repeat(32)), good.replace(parent.spanId, "0".repeat(16))];
  expect([...bad, ...zeros].map(parseTraceparent)).toEqual(new Array(8).fill(undefined));
  fc.assert(fc.property(fc.string(), (text) => parseTraceparent(text) === undefined));
});

test("without telemetry contexts pass through, and a made-up one is valid nowhere", () => {
  const { tracer, log } = noTelemetry;
  expect(tracer.enabled).toBe(false);
  expect(tracer.start("request", { kind: "server", at, parent }).context).toBe(parent);
  const alone = tracer.start("request", { kind: "server", at });
  alone.set({ a: 1 });
  alone.event("b", at);
  alone.keep();
  alone.end(at, "failed");
  expect(parseTraceparent(formatTraceparent(alone.context))).toBe(undefined);
  log.child({ actor: "ingress" }).error({ model: "mlp" }, "nobody hears this");
});

test("a recording has logs with their parents' fields, and spans with what was set on them", () => {
  const telemetry = new RecordingTelemetry();
  const { log, tracer, logs, spans } = telemetry;
  log.child({ actor: "batcher" }).child({ model: "mlp" }).warn({ model: "cnn", batch: 4 }, "late");
  expect(logs).toEqual([{ level: "warn", fields: { actor: "batcher", model: "cnn", batch: 4 }, text: "late" }]);
  expect([telemetry.texts("warn"), telemetry.texts("info")]).toEqual([["late"], []]);

  const root = tracer.start("request", { kind: "server", at, attributes: { model: "mlp" } });
  const child = tracer.start("run", { kind: "internal", at, parent: root.context, links: [parent] });
  child.set({ gpu: 3 });
  child.event("pulled", at, { bytes: 8 });
  child.end(instant(at + 5), "device lost");
  expect(child.context.traceId).toBe(root.context.traceId);
  expect(spans.map(({ endedAt }) => endedAt)).toEqual([undefined, at + 5]);
  expect(telemetry.spansNamed("run")[0]).toMatchObject({
    attributes: { gpu: 3 },
    events: [{ name: "pulled", at, attributes: { bytes: 8 } }],
    error: "device lost",
    options: { links: [parent] },
  });
});

test("a recording says what an exporter would have: what was sampled at its head, and what was kept", () => {
  const { tracer, spans } = new RecordingTelemetry({ sampled: false });
  tracer.start("well", { kind: "server", at }).end(at);
  const refused = tracer.start("refused", { kind: "server", at });
  refused.keep();
  tracer.start("part", { kind: "internal", at, parent: refused.context }).end(at);
  expect(spans.map(({ name, isRecorded }) => [name, isRecorded])).toEqual([
    ["well", false],
    ["refused", true],
    ["part", true],
  ]);
});

test("a recording keeps the last records only", () => {
  const { log, logs } = new RecordingTelemetry({ recordsMax: 2 });
  for (const text of ["a", "b", "c"]) log.info({}, text);
  expect(logs.map(({ text }) => text)).toEqual(["b", "c"]);
});
