import type { TensorSpec } from "@tutti/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import { presentationOf } from "./presentation.ts";
import { preprocessOf } from "./preprocess-config.ts";

const input = (dims: TensorSpec["dims"], type: TensorSpec["type"] = "FP32", name = "x"): TensorSpec => ({
  name,
  type,
  dims,
});
const NCHW = input(["batch", 3, 224, 224]);
const read = (config: unknown, ...inputs: TensorSpec[]): unknown => {
  const outputs = [input(["batch", 1], "FP32", "y"), input([2, "batch", 4], "FP32", "state2")];
  try {
    return preprocessOf(config, { inputs, outputs }, (text) => {
      throw new Error(text);
    });
  } catch (error) {
    return (error as Error).message;
  }
};

test("size, layout and channels are taken from the model's own input where it says them", () => {
  const plain = { kind: "image", tensor: "x", resize: "stretch", mean: [0, 0, 0], std: [1, 1, 1] };
  const square = { ...plain, height: 224, width: 224, order: "rgb" };
  expect(read({ image: {} }, NCHW)).toEqual(square);
  expect(read({ image: {} }, input(["batch", 224, 224, 3]))).toEqual({ ...square, layout: "NHWC" });
  expect(read({ image: {} }, input(["batch", 1, 28, 28]))).toEqual({ ...plain, height: 28, width: 28, order: "grey" });
  expect(read({ image: {} }, input(["batch", 48, 64, 3], "UINT8"))).toEqual({
    ...{ ...plain, height: 48, width: 64, order: "rgb" },
    ...{ layout: "NHWC", type: "UINT8" },
  });
});

test("means, deviations, order and resizing are read, one number standing for three channels", () => {
  const config = { input: "x", size: [224, 224], resize: "crop", channels: "bgr", mean: 0.5, std: [0.1, 0.2, 0.3] };
  expect(read({ image: config }, NCHW)).toEqual({
    ...{ kind: "image", tensor: "x", resize: "crop", height: 224, width: 224, order: "bgr" },
    ...{ mean: [0.5, 0.5, 0.5], std: [0.1, 0.2, 0.3] },
  });
  const line = input(["batch", 3, 48, "W"]);
  expect(read({ image: { size: [48, 320], resize: "line" } }, line)).toMatchObject({ height: 48, width: 320 });
});

test("sound is taken whole, of a fixed length or any, or frame by frame with a state", () => {
  const rate = { sample_rate: 16_000 };
  const whole = { kind: "sound", tensor: "x", sampleRate: 16_000 };
  expect(read({ audio: rate }, input(["batch", "T"]))).toEqual({ ...whole, rank: 2 });
  expect(read({ audio: rate }, input(["batch", 1, 400]))).toEqual({ ...whole, rank: 3, samples: 400 });
  const frames = { ...rate, frame: 512, state: { input: "state", output: "state2" } };
  expect(read({ audio: frames }, input(["batch", 576]), input([2, "batch", 4], "FP32", "state"))).toEqual({
    ...{ kind: "audio", tensor: "x", sampleRate: 16_000, frame: 512, context: 64 },
    state: { input: "state", output: "state2", dims: [2, 1, 4] },
  });
});

test.each<[wrong: string, config: unknown, inputs: TensorSpec[], text: string]>([
  ["neither picture nor sound", { video: {} }, [NCHW], "preprocess: image or audio is expected, not 'video'"],
  ["both", { image: {}, audio: { sample_rate: 1 } }, [NCHW], "preprocess: {image: {…}} or {audio: {…}} is expected"],
  ["no mapping", { image: 3 }, [NCHW], "preprocess.image: a mapping of keys is expected"],
  ["an unknown key", { image: { sise: 3 } }, [NCHW], "preprocess.image: unknown key 'sise'; known are input, size,"],
  ["an unknown input", { image: { input: "z" } }, [NCHW], "preprocess.image.input: the model takes no 'z'; it takes x"],
  [
    "several inputs",
    { image: { input: "x" } },
    [NCHW, input(["batch", 1], "FP32", "b")],
    "takes 2 inputs, and a picture is one",
  ],
  [
    "no picture's shape",
    { image: {} },
    [input(["batch", 10])],
    "'x' is [batch, 10]; a picture needs [batch, 3, height, width]",
  ],
  ["no channels", { image: {} }, [input(["batch", 7, 9, 9])], "has no 3 channels"],
  [
    "channels elsewhere",
    { image: { layout: "NHWC" } },
    [NCHW],
    "preprocess.image.layout: 'x' is [batch, 3, 224, 224], which has no 3 channels where NHWC has them",
  ],
  ["another type", { image: {} }, [input(["batch", 3, 8, 8], "INT64")], "'x' is INT64; pictures become FP32 or UINT8"],
  [
    "no size",
    { image: {} },
    [input(["batch", 3, "H", "W"])],
    "preprocess.image.size: 'x' has no size of its own; give one, [height, width]",
  ],
  ["another size", { image: { size: [9, 9] } }, [NCHW], "its size is 224 × 224, not 9 × 9"],
  [
    "a resizing that needs room",
    { image: { size: [224, 224], resize: "fit" } },
    [NCHW],
    "resize fit needs an axis that may vary",
  ],
  [
    "a resizing that is none",
    { image: { resize: "zoom" } },
    [NCHW],
    "preprocess.image.resize: one of stretch, crop, letterbox, line, fit",
  ],
  [
    "no numbers",
    { image: { mean: [1, 2] } },
    [NCHW],
    "preprocess.image.mean: a number, or one for each of three channels",
  ],
  ["a deviation of nothing", { image: { std: 0 } }, [NCHW], "preprocess.image.std: numbers other than 0"],
  ["means for bytes", { image: { mean: 1 } }, [input(["batch", 8, 8, 3], "UINT8")], "takes bytes as they are (UINT8)"],
  [
    "more than a request holds",
    { image: { size: [700, 700] } },
    [input(["batch", 3, "H", "W"])],
    "700 × 700 takes 5880000 bytes",
  ],
  ["no rate", { audio: {} }, [input(["batch", "T"])], "preprocess.audio.sample_rate: samples a second, such as 16000"],
  [
    "a rate beyond hearing",
    { audio: { sample_rate: 1e9 } },
    [input(["batch", "T"])],
    "a sampling rate of at most 384000",
  ],
  [
    "frames without a state",
    { audio: { sample_rate: 8, frame: 4 } },
    [input(["batch", 9])],
    "preprocess.audio.frame: frame by frame needs state",
  ],
  [
    "a state that isn't there",
    { audio: { sample_rate: 8, frame: 4, state: { input: "s", output: "y" } } },
    [input(["batch", 9])],
    "the model has no input 's' of FP32",
  ],
  [
    "frames longer than the input",
    { audio: { sample_rate: 8, frame: 40, state: { input: "s", output: "y" } } },
    [input(["batch", 9]), input([1], "FP32", "s")],
    "preprocess.audio.frame: 'x' is [batch, 9]",
  ],
])("%s is refused with the key to change", (_wrong, config, inputs, text) => {
  expect(read(config, ...inputs)).toEqual(expect.stringContaining(text));
});

test("whatever stands in a store is read as a media input or left out, and never throws", () => {
  const key = fc.constantFrom(
    "kind",
    "tensor",
    "resize",
    "height",
    "width",
    "order",
    "mean",
    "std",
    "sampleRate",
    "rank",
    "frame",
    "context",
    "state",
    "samples",
    "layout",
    "type",
  );
  const value = fc.oneof(
    fc.jsonValue(),
    fc.constantFrom(
      "image",
      "audio",
      "sound",
      "stretch",
      "rgb",
      "constructor",
      "isPrototypeOf",
      224,
      2,
      1e9,
      [0, 0, 0],
      [1, 1, 1],
    ),
  );
  fc.assert(
    fc.property(fc.dictionary(key, value), (given) => {
      const read = presentationOf({ input: given }).input;
      if (read !== undefined) expect(["image", "audio", "sound"]).toContain(read.kind);
    }),
    { numRuns: 2_000 },
  );
  const image = {
    kind: "image",
    tensor: "x",
    resize: "stretch",
    height: 8,
    width: 8,
    order: "rgb",
    mean: [0, 0, 0],
    std: [1, 1, 1],
  };
  expect(presentationOf({ input: image }).input).toEqual(image);
  for (const wrong of [
    { height: 1e6 },
    { std: [1, 0, 1] },
    { tensor: "" },
    { order: "rbg" },
    { layout: "CHW" },
    { kind: "isPrototypeOf" },
  ])
    expect(presentationOf({ input: { ...image, ...wrong } }).input).toBeUndefined();
});
