import { type FamilySpec, type ModelSpec, VARIANT_INPUT, variantInput } from "@tutti/protocol";
import { type Instant, NEVER, instant, micros } from "@tutti/units";
import { expect, test } from "vitest";
import { EmulatedEngine, type RunOutcome } from "./index.ts";

const output = (name: string) => ({ name, type: "UINT8" as const, dims: ["batch", 1] });
const variant = (name: string): FamilySpec["variants"][number] => ({
  ...{ name, version: "1", slo: micros(50_000), outputs: [output(`of ${name}`)] },
});
const family: ModelSpec = {
  name: "heads",
  number: 1,
  version: "1",
  engine: "emulated",
  slo: micros(50_000),
  batchSizeMax: 8,
  patience: 1,
  inputs: [{ name: "x", type: "UINT8", dims: ["batch", 1] }, variantInput()],
  outputs: [],
  constants: [],
  axes: {},
  buckets: [{}],
  family: {
    variants: ["a", "b", "c"].map(variant),
    pace: { prefix: { alphaMs: 0.1, betaMs: 5 }, suffix: { alphaMs: 0.01, betaMs: 0.5 } },
  },
};

function ranAt(variants: readonly number[]): { readonly at: number; readonly outcome: RunOutcome } {
  const alarms: { at: Instant; fire: () => void }[] = [];
  let now = instant(1);
  const clock = {
    now: () => now,
    alarm: (fire: () => void) => {
      const alarm = { at: NEVER, fire };
      alarms.push(alarm);
      return { set: (at: Instant) => void (alarm.at = at) };
    },
  };
  const engine = new EmulatedEngine({ clock, latency: () => undefined });
  let result: { readonly at: number; readonly outcome: RunOutcome } | undefined;
  engine.load({ spec: family, bytes: undefined }, (loaded) => expect(loaded.kind).toBe("loaded"));
  const rows = variants.length;
  const data = Uint8Array.from(variants, (_, i) => 10 + i);
  const marks = new Uint8Array(Uint16Array.from(variants).buffer);
  engine.run(
    {
      ...{ model: "heads", bucket: 0, batchSize: rows },
      inputs: [
        { name: "x", type: "UINT8", dims: [rows, 1], data },
        { name: VARIANT_INPUT, type: "UINT16", dims: [rows], data: marks },
      ],
    },
    (outcome) => (result = { at: now - 1, outcome }),
  );
  while (result === undefined) {
    const next = alarms.reduce((a, b) => (b.at < a.at ? b : a));
    now = next.at;
    next.at = NEVER;
    next.fire();
  }
  return result;
}

test("a batch costs the prefix over all rows, and a suffix for each variant that it has (C7)", () => {
  expect(ranAt([0, 0, 0, 0]).at).toBe(5_400 + 540);
  expect(ranAt([0, 1, 2, 0]).at).toBe(5_400 + 510 + 510 + 520);
});

test("each variant answers for its rows, with its own outputs", () => {
  const { outcome } = ranAt([2, 0, 2]);
  expect(outcome).toMatchObject({
    outputs: [],
    groups: [
      { variant: 0, rows: [1], outputs: [{ name: "of a", dims: [1, 1], data: Uint8Array.of(11) }] },
      { variant: 2, rows: [0, 2], outputs: [{ name: "of c", dims: [2, 1], data: Uint8Array.of(10, 12) }] },
    ],
  });
});

test("a row of a variant that there isn't is in no group", () => {
  expect(ranAt([7, 1]).outcome).toMatchObject({ groups: [{ variant: 1, rows: [1] }] });
});
