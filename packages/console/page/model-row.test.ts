import fc from "fast-check";
import { expect, test } from "vitest";
import { textOn } from "./colours.ts";
import { batchText, latencyText, refusedCauses, replayNotes, rowVerdict, sloText } from "./model-row.ts";

const row = { good: 10, late: 0, refused: {}, p99Ms: 20, sloMs: 25 };

test("a red p99 never stands beside a green share in time, and a green one means that the SLO is kept", () => {
  const rate = fc.oneof(fc.constant(null), fc.double({ min: 0, max: 1_000, noNaN: true }));
  fc.assert(
    fc.property(
      fc.record({ good: rate, late: rate, overloaded: fc.double({ min: 0, max: 10, noNaN: true }), p99Ms: rate }),
      ({ good, late, overloaded, p99Ms }) => {
        const { inTime, latency } = rowVerdict({ good, late, refused: { OVERLOADED: overloaded }, p99Ms, sloMs: 100 });
        if (latency === "bad") expect(inTime).toBe("bad");
        if (latency === "good") expect(p99Ms).toBeLessThanOrEqual(100);
      },
    ),
  );
  expect(rowVerdict(row)).toMatchObject({ share: 1, inTime: "good", latency: "good" });
  expect(rowVerdict({ ...row, late: 5, p99Ms: 40 })).toMatchObject({ inTime: "bad", latency: "bad" });
  expect(rowVerdict({ ...row, refused: { OVERLOADED: 5 } })).toMatchObject({ inTime: "bad", latency: "good" });
  expect(rowVerdict({ ...row, good: null, late: null, p99Ms: null })).toMatchObject({ share: null, inTime: "plain" });
  expect(rowVerdict({ ...row, good: 1_000, late: 1, p99Ms: 40 })).toMatchObject({
    ...{ inTime: "good", note: "beyond the SLO at the ingress where it is highest" },
  });
  const own = rowVerdict({ ...row, p99Ms: 40 });
  expect(own).toMatchObject({ inTime: "good", latency: "plain" });
  expect(latencyText({ p99Ms: 40, sloMs: 25 }, own.note)).toBe(
    "99 of 100 answers took 40 ms at most; the SLO is 25 ms: beyond the SLO, but within the deadlines of the requests.",
  );
});

test("figures that are short in a row have a long form", () => {
  expect(batchText({ batchMean: 14.46, target: 20 })).toBe(
    "A batch had 14.5 requests on average; the target at this rate is 20.",
  );
  expect(batchText({ batchMean: 3, target: null })).toBe("A batch had 3 requests on average.");
  expect(batchText({ batchMean: null, target: 4 })).toBe("No batch ran.");
  expect(latencyText({ p99Ms: null, sloMs: 25 }, undefined)).toBe("Nothing was answered.");
});

test("refusals of all models stand together by cause, with the models that had most of them first", () => {
  const models = [
    { name: "a", refused: { OVERLOADED: 1, CANCELLED: 5 } },
    { name: "b", refused: { OVERLOADED: 2, NOT_READY: 0 } },
  ];
  expect(refusedCauses(models)).toEqual([
    { code: "CANCELLED", rate: 5, models: ["a"] },
    { code: "OVERLOADED", rate: 3, models: ["b", "a"] },
  ]);
  expect(refusedCauses([])).toEqual([]);
});

test("the number on a bar can be read on any colour: a contrast of 4.5 and more", () => {
  const linear = (value: number): number => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  fc.assert(
    fc.property(fc.tuple(fc.nat(255), fc.nat(255), fc.nat(255)), (rgb) => {
      const text = textOn(`#${rgb.map((one) => one.toString(16).padStart(2, "0")).join("")}`);
      const [red, green, blue] = rgb.map((one) => linear(one / 255));
      const luminance = 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!;
      expect(text === "#fff" ? 1.05 / (luminance + 0.05) : (luminance + 0.05) / 0.05).toBeGreaterThan(4.5);
    }),
  );
});

test("a replay whose p99 is beyond the SLO of some says whose SLOs count, and why a p99 is missing", () => {
  const one = { name: "mlp", p99Ms: 20, sloLeastMs: 50, sloMostMs: 50 };
  expect([sloText(one), replayNotes([one])]).toEqual(["50 ms", []]);
  const own = { name: "ocr", p99Ms: 123, sloLeastMs: 50, sloMostMs: 1_500 };
  expect(sloText(own)).toBe("50 ms to 1.5 s");
  expect(replayNotes([one, own, { ...one, name: "bert", p99Ms: null }])).toEqual([
    "Requests of ocr have SLOs of their own: each is in time by its own, and the p99 is that of all.",
    "bert has no p99: more than one request in a hundred got no answer.",
  ]);
});
