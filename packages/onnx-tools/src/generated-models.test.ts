import { expect, test } from "vitest";
import {
  type Damage,
  damaged,
  describeModel,
  generateAddOne,
  generateCnn,
  generateCtr,
  generateEndless,
  generateLoop,
  generateMaskedAttention,
  generateMlp,
  generateTokenLoop,
  sha256Of,
} from "./index.ts";

const MODELS = {
  mlp: () => generateMlp({ widths: [256, 1024, 1024, 128] }),
  ctr: () => generateCtr(),
  cnn: () => generateCnn(),
  addOne: () => generateAddOne(),
  loop: () => generateLoop(),
  endless: () => generateEndless(),
  tokenLoop: () => generateTokenLoop(),
  attention: () => generateMaskedAttention(),
};

test("a generated model has the same bytes on every run and every machine", () => {
  const digests = Object.fromEntries(Object.entries(MODELS).map(([name, generate]) => [name, sha256Of(generate())]));
  expect(digests).toEqual({
    mlp: "b2518513835091d4e1a2bfd1606806628e29779de9bdbbbcb585d11cb2c1e77b",
    ctr: "0332104c3de3a6af39af7153981162875201f472f0bb7d015c2a19e0831d4f39",
    cnn: "c75f100ba9de767237d91648739b4c50d86b10c009da199164d6ed4df754dfc2",
    addOne: "a72f786ff10f6420eb01279c73fe4309c64dceda6704db6fefa5de69cb4142a5",
    endless: "7d2bbb9cd3e8594a1cece51a4b751f60683fe913273f25066eb65077bd53c5ca",
    loop: "3c3e91f68e2d4b863e236958484d9707c82170275cc5204713e7dc47f165ee19",
    tokenLoop: "e0b3bb22de505ae2501b9a4fce6038210d66831d1e56a79b68177115d7576ac4",
    attention: "62d35ce818b4c5cc3b936eae35c3c5f6a6e125da7a4ab34f1d487987f6b8566c",
  });
  expect(sha256Of(MODELS.mlp())).toBe(digests["mlp"]);
});

test("another seed or another width gives another model", () => {
  const widths = [8, 16, 4];
  expect(sha256Of(generateMlp({ widths }))).not.toBe(sha256Of(generateMlp({ widths, seed: 2 })));
  expect(describeModel(generateMlp({ widths })).inputs).toEqual([{ name: "x", type: "FP32", dims: ["batch", 8] }]);
});

test("every generated model names its batch axis, on every tensor that has one", () => {
  const shapes = Object.entries(MODELS).map(([name, generate]) => {
    const { inputs, outputs } = describeModel(generate());
    return [name, ...[...inputs, ...outputs].map((value) => `${value.name} ${value.type} ${String(value.dims)}`)];
  });
  expect(shapes).toEqual([
    ["mlp", "x FP32 batch,256", "y FP32 batch,128"],
    ["ctr", "ids INT64 batch,16", "score FP32 batch,1"],
    ["cnn", "image FP32 batch,3,32,32", "probabilities FP32 batch,10"],
    ["addOne", "x FP32 batch,4", "y FP32 batch,4"],
    ["loop", "x FP32 batch,64", "trips INT64 ", "y FP32 batch,64"],
    ["endless", "x FP32 batch,16", "y FP32 batch,16"],
    ["tokenLoop", "x FP32 batch,T,8", "lengths INT64 batch", "y FP32 batch,256"],
    ["attention", "ids INT64 batch,L", "mask FP32 batch,L", "tokens FP32 batch,L,64", "pooled FP32 batch,64"],
  ]);
});

test("a convolution with a channel count that WebGPU computes wrongly is refused", () => {
  expect(() => generateCnn({ channels: 6 })).toThrow("take 1, 3 or a multiple of 4");
});

test("damage never changes the bytes it was made from", () => {
  const whole = Buffer.from(generateAddOne()); // what readFileSync gives
  const before = sha256Of(whole);
  const kinds: Damage[] = ["truncated", "flipped-bit", "empty", "text", "unknown-operator"];
  const digests = kinds.map((kind) => sha256Of(damaged(whole, kind)));
  expect(sha256Of(whole)).toBe(before);
  expect(new Set([...digests, before]).size).toBe(kinds.length + 1);
});
