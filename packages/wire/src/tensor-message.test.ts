import { DATA_TYPES, type DataType, type Tensor, TuttiError, bytesOf, elementCount } from "@tutti/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import { decodeTensors, encodeTensors } from "./index.ts";

const types = Object.keys(DATA_TYPES) as DataType[];
const dims = fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 4 });
const name = fc.string({ minLength: 1, maxLength: 20, unit: "grapheme" });
const tensor: fc.Arbitrary<Tensor> = fc
  .record({ name, type: fc.constantFrom(...types), dims }, { noNullPrototype: true })
  .chain(({ name, type, dims }) => {
    const length = elementCount(dims) * bytesOf(type);
    return fc.uint8Array({ minLength: length, maxLength: length }).map((data) => ({ name, type, dims, data }));
  });

test("tensors come back as they were, their data views of the message at multiples of 8", () => {
  fc.assert(
    fc.property(fc.array(tensor, { maxLength: 6 }), (tensors) => {
      const message = encodeTensors(tensors);
      const decoded = decodeTensors(message);
      expect(decoded).toEqual(tensors);
      for (const { data } of decoded) {
        expect(data.buffer).toBe(message.buffer);
        expect(data.byteOffset % 8).toBe(0);
      }
    }),
  );
});

test("in an aligned message a tensor is a Float32Array without a copy", () => {
  const values = Float32Array.of(1, 2.5, -3);
  const message = encodeTensors([
    { name: "flags", type: "BOOL", dims: [3], data: new Uint8Array(3) },
    { name: "x", type: "FP32", dims: [1, 3], data: new Uint8Array(values.buffer) },
  ]);
  const { data } = decodeTensors(message)[1]!;
  expect(new Float32Array(data.buffer, data.byteOffset, 3)).toEqual(values);
});

test("any other bytes are INVALID_INPUT, or tensors that lie within them", () => {
  const changed = fc
    .tuple(fc.array(tensor, { maxLength: 3 }), fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 4 }), fc.nat())
    .map(([tensors, edits, cut]) => {
      const message = encodeTensors(tensors);
      for (const [at, byte] of edits) message[at % message.byteLength] = byte;
      return cut % 3 === 0 ? message.subarray(0, cut % (message.byteLength + 1)) : message;
    });
  fc.assert(
    fc.property(fc.oneof(changed, fc.uint8Array({ maxLength: 50 })), (message) => {
      try {
        for (const { type, dims, data } of decodeTensors(message))
          expect(data.byteLength).toBe(elementCount(dims) * bytesOf(type));
      } catch (error) {
        expect(error).toBeInstanceOf(TuttiError);
        expect((error as TuttiError).code).toBe("TUTTI_INVALID_INPUT");
      }
    }),
    { numRuns: 1_000 },
  );
});

test("a refusal names the tensor, its shape and its length", () => {
  const bad = { name: "x", type: "FP32", dims: [2, 3], data: new Uint8Array(20) } as const;
  expect(() => encodeTensors([bad])).toThrow('tensor "x": FP32[2, 3] takes 24 bytes of data, got 20');
  const message = encodeTensors([{ ...bad, data: new Uint8Array(24) }]);
  expect(() => decodeTensors(message.subarray(0, message.byteLength - 8))).toThrow(/data of tensor "x" ends 8 bytes/);
  expect(() => decodeTensors(new Uint8Array([...message, ...new Uint8Array(8)]))).toThrow("8 bytes are left over");
  expect(() => decodeTensors(new Uint8Array(3))).toThrow("does not start with TTN1");
});
