import { DATA_TYPES, type DataType, RANK_MAX, type Tensor, TuttiError, bytesOf, elementCount } from "@tutti/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import { answerBody, writeAnswerJson } from "./infer-answer.ts";
import { readInferHead, tensorsOf } from "./infer-head.ts";

const bytes = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));
const types = Object.keys(DATA_TYPES) as DataType[];

const tensorBytes = (type: DataType, count: number): fc.Arbitrary<Uint8Array> => {
  const size = count * bytesOf(type);
  // A BOOL is 0 or 1, and a NaN has many forms, of which JSON keeps one.
  if (type === "BOOL") return fc.uint8Array({ minLength: size, maxLength: size, max: 1 });
  if (type.startsWith("FP")) return fc.constant(new Uint8Array(size));
  return fc.uint8Array({ minLength: size, maxLength: size });
};
const tensor: fc.Arbitrary<Tensor & { readonly isBinary: boolean }> = fc
  .record({
    name: fc.string({ minLength: 1, maxLength: 20 }),
    type: fc.constantFrom(...types),
    dims: fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 4 }),
    isBinary: fc.boolean(),
  })
  .chain((one) => tensorBytes(one.type, elementCount(one.dims)).map((data) => ({ ...one, data })));

test("tensors come back as they were sent, those in JSON and those behind it", () => {
  fc.assert(
    fc.property(fc.array(tensor, { maxLength: 5 }), (tensors) => {
      // An answer has the same layout as a request, except for the key.
      const json = new TextDecoder().decode(writeAnswerJson({ model: "m", version: "1", id: "7", outputs: tensors }));
      const { outputs, id } = JSON.parse(json) as { outputs: unknown; id: string };
      const request = bytes({ id, inputs: outputs });
      const { chunks, jsonBytes } = answerBody(request, tensors);
      const body = Buffer.concat(chunks);
      const head = readInferHead(body.subarray(0, jsonBytes ?? body.byteLength));
      expect(head.id).toBe("7");
      const read = tensorsOf(head, body.subarray(jsonBytes ?? body.byteLength));
      expect(read.map(({ name, type, dims, data }) => [name, type, dims, [...data]])).toEqual(
        tensors.map(({ name, type, dims, data }) => [name, type, dims, [...data]]),
      );
    }),
  );
});

const plausible = fc.record(
  {
    id: fc.anything(),
    inputs: fc.oneof(
      fc.anything(),
      fc.array(
        fc.record(
          {
            name: fc.oneof(fc.anything(), fc.constant("x")),
            datatype: fc.oneof(fc.anything(), fc.constantFrom(...types, "BYTES", "BF16")),
            shape: fc.oneof(fc.anything(), fc.array(fc.double()), fc.array(fc.nat())),
            data: fc.anything(),
            parameters: fc.oneof(fc.anything(), fc.record({ binary_data_size: fc.oneof(fc.anything(), fc.nat()) })),
          },
          { requiredKeys: [] },
        ),
      ),
    ),
    outputs: fc.anything(),
    parameters: fc.anything(),
  },
  { requiredKeys: [] },
);

test("whatever a body holds, it is read or refused as INVALID_INPUT (T8)", () => {
  const look = (json: Uint8Array, tail: Uint8Array): void => {
    try {
      tensorsOf(readInferHead(json), tail);
    } catch (error) {
      expect(error).toBeInstanceOf(TuttiError);
      expect((error as TuttiError).code).toBe("TUTTI_INVALID_INPUT");
    }
  };
  fc.assert(fc.property(fc.uint8Array(), fc.uint8Array(), look));
  const asJson = plausible.map((value) => {
    try {
      return bytes(
        JSON.parse(JSON.stringify(value, (_, part: unknown) => (typeof part === "bigint" ? 1 : part)) ?? "0"),
      );
    } catch {
      return bytes(0);
    }
  });
  fc.assert(fc.property(asJson, fc.uint8Array(), look), { numRuns: 500 });
});

const input = { name: "x", datatype: "FP32", shape: [1, 2] };
const refusal = (body: unknown, tail = new Uint8Array(0)): string => {
  try {
    tensorsOf(readInferHead(bytes(body)), tail);
    return "read";
  } catch (error) {
    return (error as Error).message;
  }
};

test("where a tensor lies in shared memory is read, and what doesn't fit it is refused", () => {
  const lies = { shared_memory_region: "r", shared_memory_byte_size: 8 };
  const read = (inputs: object[], outputs: object[] = []) => readInferHead(bytes({ inputs, outputs }));
  const { inputs, outputs } = read(
    [{ ...input, parameters: { ...lies, shared_memory_offset: 4 } }],
    [{ name: "y", parameters: lies }],
  );
  expect(inputs[0]!.slice).toEqual({ region: "r", offset: 4, bytes: 8 });
  expect(outputs![0]!.slice).toEqual({ region: "r", offset: 0, bytes: 8 });
  expect(tensorsOf(read([{ ...input, parameters: lies }]), new Uint8Array(0))).toMatchObject([{ type: "FP32" }]);
  for (const [wrong, text] of [
    [{ shared_memory_byte_size: 4 }, "takes 8 bytes, its shared_memory_byte_size is 4"],
    [{ shared_memory_byte_size: -8 }, "whole numbers of bytes"],
    [{ shared_memory_offset: 0.5 }, "whole numbers of bytes"],
    [{ shared_memory_region: 3 }, "shared_memory_region is a name"],
    [{ shared_memory_region: "x".repeat(257) }, "shared_memory_region is a name"],
    [{ binary_data_size: 8 }, "lies in shared memory and is sent too"],
  ] as const)
    expect(refusal({ inputs: [{ ...input, parameters: { ...lies, ...wrong } }] })).toContain(text);
  expect(refusal({ inputs: [{ ...input, data: [1, 2], parameters: lies }] })).toContain("is sent too");
  const classified = { name: "y", parameters: { ...lies, classification: 2 } };
  expect(refusal({ inputs: [], outputs: [classified] })).toContain("not written to shared memory");
});

test("sizes that don't add up are refused, and so is what isn't served, each by its name", () => {
  const binary = (size: unknown): unknown => ({ inputs: [{ ...input, parameters: { binary_data_size: size } }] });
  expect(refusal(binary(8), new Uint8Array(8))).toBe("read");
  expect(refusal(binary(8), new Uint8Array(7))).toContain("end beyond the body");
  expect(refusal(binary(8), new Uint8Array(9))).toContain("add up to 8");
  expect(refusal(binary(4), new Uint8Array(4))).toContain("takes 8 bytes");
  expect(refusal(binary("8"), new Uint8Array(8))).toContain("binary_data_size is 8");
  expect(refusal({ inputs: [{ ...input, data: [1, 2] }] }, new Uint8Array(1))).toContain("1 bytes follow the JSON");
  expect(refusal({ inputs: [{ ...input, data: [1] }] })).toContain("has 2 elements, data has 1");
  expect(refusal({ inputs: [input] })).toContain("neither data nor");
  expect(refusal({ inputs: [{ ...input, data: 1 }] })).toContain("data must be a list");
  expect(refusal({ inputs: [{ ...input, datatype: "float", data: [1, 2] }] })).toContain('datatype "float" is none of');
  expect(refusal({ inputs: [{ ...input, datatype: undefined, data: [1] }] })).toContain("datatype missing is none of");
  expect(refusal({ inputs: [{ ...input, shape: [-1, 2], data: [1] }] })).toMatch(/whole numbers .*; it is \[-1,2\]$/);
  expect(refusal({ inputs: [{ ...input, data: [1, 2], parameters: { binary_data_size: 8 } }] })).toContain("both");
  expect(refusal({ inputs: [{ ...input, datatype: "BYTES", data: ["a", 2] }] })).toContain("element 1 of BYTES is no");
  expect(refusal({ inputs: [{ ...input, datatype: "BF16", data: [1, 2] }] })).toContain("BF16 has no form in JSON");
  expect(refusal({ inputs: [{ ...input, shape: new Array(RANK_MAX + 1).fill(1), data: [1] }] })).toContain("RANK_MAX");
  expect(refusal({ inputs: [{ ...input, shape: [2 ** 31, 2 ** 31], data: [1] }] })).toContain("data has 1");
  for (const classification of [-1, 1.5, "3", true])
    expect(refusal({ inputs: [], outputs: [{ name: "y", parameters: { classification } }] })).toContain(
      "classification is a whole number",
    );
  expect(refusal({ inputs: new Array(65).fill(input) })).toContain("TENSORS_MAX");
});
