import { DATA_TYPES } from "@tutti/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import { inferenceService } from "./grpc-front.ts";
import { GRPC_FIELDS_MAX, GRPC_TYPED_BYTES_MAX, readInferMessage } from "./infer-message.ts";
import { field } from "./testing/encoded-fields.ts";

const { ModelInfer } = inferenceService().service;
const encoded = (request: object): Buffer => ModelInfer!.requestSerialize(request);
const codeOf = (bytes: Buffer): string => readInferMessage(bytes).refusal?.code ?? "ok";
const nothing = Buffer.alloc(0);

test("a request is read as the protocol's own decoder reads it", () => {
  const name = fc.string({ maxLength: 8 });
  const value = fc.oneof(
    fc.record({ bool_param: fc.boolean() }),
    fc.record({ int64_param: fc.maxSafeInteger() }),
    fc.record({ string_param: name }),
    fc.record({ double_param: fc.double() }),
    fc.record({ uint64_param: fc.maxSafeNat() }),
  );
  const parameters = fc.dictionary(name, value, { maxKeys: 3 });
  const input = fc.record({
    ...{ name, datatype: fc.constantFrom(...Object.keys(DATA_TYPES)), parameters },
    shape: fc.array(fc.oneof(fc.nat(), fc.maxSafeInteger()), { maxLength: 8 }),
  });
  const request = fc.record({
    ...{ model_name: name, model_version: name, id: name, parameters, inputs: fc.array(input, { maxLength: 4 }) },
    outputs: fc.array(fc.record({ name, parameters }), { maxLength: 4 }),
    raw_input_contents: fc.array(fc.uint8Array({ maxLength: 200 }), { maxLength: 4 }),
  });
  type Decoded = {
    readonly parameters: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
    readonly inputs: readonly (Decoded & { name: string; datatype: string; shape: readonly string[] })[];
    readonly outputs: readonly (Decoded & { name: string })[];
    readonly model_name: string;
    readonly model_version: string;
    readonly id: string;
    readonly raw_input_contents: readonly Uint8Array[];
  };
  const plain = ({ parameters: given }: Pick<Decoded, "parameters">) =>
    Object.fromEntries(
      Object.entries(given).map(([key, one]) => {
        const choice = String(one["parameter_choice"]);
        return [key, /int64/.test(choice) ? Number(one[choice]) : one[choice]];
      }),
    );
  fc.assert(
    fc.property(request, (one) => {
      const bytes = encoded(one);
      const theirs = ModelInfer!.requestDeserialize(bytes) as unknown as Decoded;
      expect(readInferMessage(bytes)).toEqual({
        ...{ model: theirs.model_name, version: theirs.model_version, id: theirs.id, parameters: plain(theirs) },
        inputs: theirs.inputs.map((sent) => ({
          ...{ name: sent.name, datatype: sent.datatype, shape: sent.shape.map(Number), parameters: plain(sent) },
          contents: [],
        })),
        outputs: theirs.outputs.map((wanted) => ({ name: wanted.name, parameters: plain(wanted) })),
        raw: theirs.raw_input_contents.map((raw) => Buffer.from(raw)),
      });
    }),
  );
});

test("raw tensors may be as large as a message, and all else is bounded", () => {
  const raw = { model_name: "m", inputs: [{ name: "x" }], raw_input_contents: [Buffer.alloc(20_000_000)] };
  expect(codeOf(encoded(raw))).toBe("ok");
  const typed = (count: number): Buffer =>
    encoded({ inputs: [{ contents: { fp32_contents: Array<number>(count).fill(1) } }] });
  expect(codeOf(typed(GRPC_TYPED_BYTES_MAX / 4 - 100))).toBe("ok");
  expect(codeOf(typed(GRPC_TYPED_BYTES_MAX / 4 + 100))).toBe("TUTTI_TOO_LARGE");
});

test("whatever a request repeats, no more of it is read than may be", () => {
  const many = (count: number, one: Buffer): Buffer => Buffer.concat(Array<Buffer>(count).fill(one));
  for (const number of [1, 3, 7, 15]) {
    expect(codeOf(many(GRPC_FIELDS_MAX, field(number, 2, nothing))), `field ${number}`).toBe("ok");
    expect(codeOf(many(GRPC_FIELDS_MAX + 1, field(number, 2, nothing)))).toBe("TUTTI_TOO_LARGE");
  }
  const value = field(2, 2, many(GRPC_FIELDS_MAX, Buffer.from([2 << 3, 1])));
  expect(codeOf(field(4, 2, value))).toBe("TUTTI_TOO_LARGE");
  for (const number of [5, 6]) {
    expect(codeOf(many(64, field(number, 2, nothing)))).toBe("ok");
    expect(codeOf(many(65, field(number, 2, nothing)))).toBe("TUTTI_INVALID_INPUT");
  }
  expect(codeOf(many(65, field(4, 2, value.subarray(0, 0))))).toBe("TUTTI_INVALID_INPUT");
  const shape = readInferMessage(field(5, 2, field(3, 2, Buffer.alloc(1_000_000, 1))));
  expect([shape.refusal, shape.inputs[0]!.shape.length]).toEqual([undefined, 9]);
});

test("a refused request keeps its id, by which streams tell their answers apart", () => {
  const { id, refusal } = readInferMessage(encoded({ id: "7", parameters: { p: {} } }));
  expect([id, refusal?.code]).toEqual(["7", "TUTTI_INVALID_INPUT"]);
});

test("fields of another type than they have, groups, and what ends early are refused (T8)", () => {
  const hidden = [
    Buffer.from([(1 << 3) | 0, 1]),
    Buffer.from([(15 << 3) | 3, (15 << 3) | 4]),
    Buffer.from([(1 << 3) | 2, 5, 1]),
    Buffer.from([(5 << 3) | 2, 2, (3 << 3) | 0, 0x80]),
    Buffer.from([(1 << 3) | 1, 1, 2]),
    Buffer.from([0x80]),
  ];
  for (const bytes of hidden) expect(codeOf(bytes)).toBe("TUTTI_INVALID_INPUT");
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
      expect(["ok", "TUTTI_INVALID_INPUT", "TUTTI_TOO_LARGE"]).toContain(codeOf(Buffer.from(bytes)));
    }),
  );
});
