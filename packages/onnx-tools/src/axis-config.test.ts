import { TuttiError, isModelSpec, longestLengths, ownLength } from "@tutti/protocol";
import { expect, test } from "vitest";
import {
  type ModelConfig,
  completeSpec,
  describeModel,
  draftModel,
  generateMaskedAttention,
  generateTokenLoop,
  parseModelConfig,
} from "./index.ts";

const attention = describeModel(generateMaskedAttention({ width: 8, vocabulary: 10 }));
const loop = describeModel(generateTokenLoop({ width: 8 }));

function refusal(config: Partial<ModelConfig>, description = attention): string {
  try {
    draftModel({ name: "m", slo: 30, ...config }, description);
    return "accepted";
  } catch (error) {
    expect(error).toBeInstanceOf(TuttiError);
    return (error as TuttiError).message;
  }
}

test("an axis in mode pad makes one bucket, and its mask is made, not sent", () => {
  const axes = {
    L: { mode: "pad", max: 512, multiple: 16, typical: 64, pad_value: { ids: 2 }, mask: "mask" },
  } as const;
  const draft = draftModel({ name: "m", slo: 30, axes }, attention);
  expect(draft).toMatchObject({
    inputs: [{ name: "ids", dims: ["batch", "L"] }],
    made: [{ name: "mask", type: "FP32", dims: ["batch", "L"], made: "mask", axis: "L" }],
    axes: { L: { mode: "pad", sizes: [512], padValue: 0, padValues: { ids: 2 }, multiple: 16, typical: 64 } },
    buckets: [{}],
    batchSizeMax: 32,
  });
  expect(draft.cuts).toBeUndefined();
  const spec = completeSpec(draft, { number: 1, object: "m" });
  expect(isModelSpec(JSON.parse(JSON.stringify(spec)))).toBe(true);
  expect(longestLengths(spec)).toEqual([512]);
  expect([ownLength(spec, "L", [77]), ownLength(spec, 64, [77]), ownLength(spec, "other", [77])]).toEqual([
    77,
    undefined,
    undefined,
  ]);
});

test("what is said of an axis must fit: the refusal names the key", () => {
  const pad = { mode: "pad", max: 64 } as const;
  expect(refusal({ axes: { L: pad } })).toBe("accepted");
  expect(refusal({ axes: { L: { mode: "pad" } } })).toContain("axes.L.max: the longest that is taken");
  expect(refusal({ axes: { L: { ...pad, sizes: [64] } } })).toContain("axes.L.sizes: only of an axis in mode bucket");
  expect(refusal({ axes: { L: { ...pad, multiple: 65 } } })).toContain("axes.L.multiple: a whole number from 1 to 64");
  expect(refusal({ axes: { L: { ...pad, typical: 0.5 } } })).toContain("axes.L.typical: a whole number from 1 to 64");
  expect(refusal({ axes: { L: { ...pad, mask: "nope" } } })).toContain("axes.L.mask: the file has no input 'nope'");
  expect(refusal({ axes: { L: { ...pad, lengths: "mask" } } })).toContain("axes.L.lengths: 'mask' is [batch, L]");
  expect(refusal({ axes: { L: { ...pad, pad_value: { x: 1 } } } })).toContain("axes.L.pad_value: no input 'x'");
  expect(refusal({ axes: { L: { ...pad, pad_value: { ids: 0.5 } } } })).toContain(
    "'ids' is INT64, which can't be padded with 0.5",
  );
  expect(refusal({ axes: { L: { sizes: [8], mask: "mask" } } })).toContain("axes.L.mask: only of an axis in mode pad");
  expect(refusal({ axes: { L: { sizes: [8], mixed: false } } })).toContain("axes.L.mixed: false only of an axis in");
  expect(refusal({ axes: { L: { ...pad, mixed: false } }, max_batch_size: 17 })).toContain("at most 16");
});

test("an output axis that nothing is said of is refused, since it would hand out padding", () => {
  const config = { axes: { T: { mode: "pad", max: 9, lengths: "lengths" } } } as const;
  expect(refusal(config, loop)).toBe("accepted");
  const renamed = { ...attention, outputs: [{ name: "tokens", type: "FP32", dims: ["batch", "T", 8] }] } as const;
  const axes = { L: { mode: "pad", max: 9, mask: "mask" } } as const;
  expect(refusal({ axes }, renamed)).toContain("axis 'T' of output 'tokens': say how it follows");
  expect(refusal({ axes, cut: { T: "none" } }, renamed)).toBe("accepted");
  expect(refusal({ axes, cut: { T: { axis: "L", divide: 0 } } }, renamed)).toContain("cut.T.divide");
  expect(refusal({ axes, cut: { T: { axis: "W" } } }, renamed)).toContain("cut.T.axis: 'W' is no axis in mode pad");
  expect(refusal({ axes, cut: { T: "none", U: "none" } }, renamed)).toContain("cut: no output has an axis 'U'");
  const { cuts, ...draft } = draftModel(
    { name: "m", slo: 30, axes, cut: { T: { axis: "L", divide: 8, add: 3 } } },
    renamed,
  );
  const lengthsOf = [1, 5, 13, 96, 100].map((length) => ownLength({ ...draft, cuts: cuts! }, "T", [length]));
  expect(lengthsOf).toEqual([1, 1, 2, 12, 12]);
});

test("a config file's axes and cuts have known keys of known kinds", () => {
  const parse = (value: object): string => {
    try {
      parseModelConfig(value, "config.yaml");
      return "parsed";
    } catch (error) {
      return (error as Error).message;
    }
  };
  const good = { axes: { W: { mode: "pad", max: 640, mixed: false, pad_value: { x: 1 } } }, cut: { T: { axis: "W" } } };
  expect(parse(good)).toBe("parsed");
  expect(parse({ axes: { W: { mode: "pad", maximum: 9 } } })).toContain("axes.W:");
  expect(parse({ axes: { W: { mode: "pad", mixed: "no" } } })).toContain("axes.W:");
  expect(parse({ cut: { T: { from: "W" } } })).toContain("cut.T:");
  expect(parse({ cut: { T: "all" } })).toContain("cut.T:");
});
