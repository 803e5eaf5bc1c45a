import { instant } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { formatBatchTrace, parseBatchTrace } from "./batch-trace.ts";

const context = { traceId: "a".repeat(32), spanId: "b".repeat(16), sampled: true };
const times = {
  grantedAt: instant(1_795_233_600_123_456),
  receivedAt: instant(1_795_233_600_123_700),
  readyAt: instant(3),
};

test("what an executor tells of its batch is read as it was, with the context where there is one", () => {
  expect(parseBatchTrace(formatBatchTrace(context, times))).toEqual({ context, ...times });
  const nobody = { traceId: "0".repeat(32), spanId: "0".repeat(16), sampled: false };
  expect(parseBatchTrace(formatBatchTrace(nobody, times))).toEqual({ context: undefined, ...times });
});

test("whatever else comes in its place is nothing, and throws nothing", () => {
  const good = formatBatchTrace(context, times);
  const bad = [
    undefined,
    "",
    " ",
    good.slice(1),
    `${good} 1`,
    good.replace(" 3", " -3"),
    good.replace(" 3", " 9999999999999999"),
  ];
  expect(bad.map(parseBatchTrace)).toEqual(bad.map(() => undefined));
  fc.assert(fc.property(fc.string(), (text) => parseBatchTrace(text) === undefined));
});
