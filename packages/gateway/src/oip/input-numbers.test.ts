import fc from "fast-check";
import { expect, test } from "vitest";
import { twice } from "../testing/gateway-scene.ts";
import type { GivenTensor } from "./given-tensors.ts";
import { widened } from "./input-numbers.ts";

const half = (data: Uint8Array, name = "x"): GivenTensor => ({ name, type: "BF16", dims: [1, data.length / 2], data });

test("BF16 is the first half of FP32, wherever in a buffer it lies", () => {
  const bits = fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 20 });
  fc.assert(
    fc.property(bits, fc.integer({ min: 0, max: 3 }), (values, offset) => {
      const buffer = Buffer.alloc(offset + 2 * values.length); // as bodies are, whose slice() copies nothing
      values.forEach((value, i) => buffer.writeUInt16LE(value, offset + 2 * i));
      const { type, dims, data } = widened(twice, half(buffer.subarray(offset)));
      expect([type, dims]).toEqual(["FP32", [1, values.length]]);
      const wide = new DataView(data.buffer);
      expect(values.map((_, i) => wide.getUint32(4 * i, true))).toEqual(values.map((value) => value * 0x10000));
    }),
  );
  const known = new Uint8Array(Uint16Array.of(0x3f80, 0xc020, 0x7f80).buffer);
  expect([...new Float32Array(widened(twice, half(known)).data.buffer)]).toEqual([1, -2.5, Infinity]);
});

test("BF16 is refused where the model's own input is no FP32, with its type, and for what is no input of it", () => {
  const inputs = [{ name: "ids", type: "INT64", dims: ["batch", 4] }] as const;
  const whole = { ...twice, name: "whole", inputs };
  expect(() => widened(whole, half(new Uint8Array(2), "ids"))).toThrow('"ids" is INT64, and BF16 becomes FP32 only');
  expect(() => widened(whole, half(new Uint8Array(2)))).toThrow('"whole" has no input "x"');
  expect(() => widened(undefined, half(new Uint8Array(2)))).toThrow("a pipeline takes no BF16");
});
