import type { TuttiError } from "@tutti/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import { inferenceService } from "./grpc-front.ts";
import { GRPC_FIELDS_MAX, GRPC_TYPED_BYTES_MAX, refusalOf } from "./message-scan.ts";

const { ModelInfer, RepositoryModelLoad, ServerLive } = inferenceService().service;
const infer = (request: object): Buffer => ModelInfer!.requestSerialize(request);
const codeOf = (refusal: TuttiError | undefined): string => refusal?.code ?? "ok";
/** Encodes a field by its number, the type of its tag, and its content. */
const field = (number: number, type: number, content: Uint8Array): Buffer => {
  const length: number[] = [];
  let left = content.byteLength;
  for (; left > 127; left = Math.floor(left / 128)) length.push((left & 127) | 128);
  return Buffer.concat([Buffer.from([(number << 3) | type, ...length, left]), content]);
};

test("what the protocol's own encoder makes may be decoded", () => {
  const name = fc.string({ maxLength: 8 });
  const parameters = fc.dictionary(name, fc.record({ int64_param: fc.integer() }), { maxKeys: 3 });
  const input = fc.record({
    ...{ name, datatype: name, shape: fc.array(fc.nat(), { maxLength: 8 }), parameters },
    contents: fc.record({ fp32_contents: fc.array(fc.float()), int64_contents: fc.array(fc.integer()) }),
  });
  const request = fc.record({
    ...{ model_name: name, id: name, parameters, inputs: fc.array(input, { maxLength: 4 }) },
    outputs: fc.array(fc.record({ name, parameters }), { maxLength: 4 }),
    raw_input_contents: fc.array(fc.uint8Array({ maxLength: 200 }), { maxLength: 4 }),
  });
  fc.assert(fc.property(request, (one) => void expect(codeOf(refusalOf(infer(one), "infer"))).toBe("ok")));
  const parameter = {
    parameters: { "file:1/model.onnx": { bytes_param: Buffer.alloc(5_000_000) }, k: { bool_param: true } },
  };
  expect(codeOf(refusalOf(RepositoryModelLoad!.requestSerialize(parameter), "load"))).toBe("ok");
  expect(codeOf(refusalOf(ServerLive!.requestSerialize({}), "short"))).toBe("ok");
});

test("raw tensors may be as large as a message; typed ones, and all else, are bounded", () => {
  const raw = infer({ model_name: "m", inputs: [{ name: "x" }], raw_input_contents: [Buffer.alloc(20_000_000)] });
  expect(codeOf(refusalOf(raw, "infer"))).toBe("ok");
  const typed = (count: number): Buffer =>
    infer({ inputs: [{ contents: { fp32_contents: Array<number>(count).fill(1) } }] });
  expect(codeOf(refusalOf(typed(GRPC_TYPED_BYTES_MAX / 4 - 100), "infer"))).toBe("ok");
  expect(codeOf(refusalOf(typed(GRPC_TYPED_BYTES_MAX / 4 + 100), "infer"))).toBe("TUTTI_TOO_LARGE");
  expect(codeOf(refusalOf(Buffer.alloc(65_537), "short"))).toBe("TUTTI_TOO_LARGE");
});

test("a message of more objects than may be is refused before they are made", () => {
  const empty = (number: number, count: number): Buffer =>
    Buffer.concat(Array(count).fill(field(number, 2, Buffer.alloc(0))));
  for (const number of [4, 5, 6, 7, 15]) {
    expect(codeOf(refusalOf(empty(number, GRPC_FIELDS_MAX), "infer")), `field ${number}`).toBe("ok");
    expect(codeOf(refusalOf(empty(number, GRPC_FIELDS_MAX + 1), "infer")), `field ${number}`).toBe("TUTTI_TOO_LARGE");
  }
  expect(codeOf(refusalOf(field(5, 2, empty(4, GRPC_FIELDS_MAX)), "infer"))).toBe("TUTTI_TOO_LARGE");
  const entry = field(3, 2, field(2, 2, empty(9, GRPC_FIELDS_MAX)));
  expect(codeOf(refusalOf(entry, "load"))).toBe("TUTTI_TOO_LARGE");
});

test("a tag that gives a field another type than it has, a group and a varint that is too long are refused (MS1)", () => {
  const doubles = field(7, 2, Buffer.alloc(2_000_000)); // raw_input_contents here, and fp64_contents within contents
  const hidden = [
    Buffer.concat([Buffer.from([(5 << 3) | 5, 0x88, 0x80, 0x80, 0x01, (5 << 3) | 5, 0x83, 0x80, 0x80, 0x01]), doubles]),
    Buffer.from([(5 << 3) | 0, 4, 8, 0, 8, 0]),
    Buffer.from([(15 << 3) | 3, (15 << 3) | 4]),
    Buffer.from([(15 << 3) | 2, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00]),
    Buffer.from([0xfa, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00, 0]),
    field(5, 2, Buffer.from([(5 << 3) | 5, 1, 0, 0, 0])),
  ];
  for (const bytes of hidden) expect(codeOf(refusalOf(bytes, "infer"))).toBe("TUTTI_INVALID_INPUT");
});

test("whatever bytes come, they are refused or decoded, and nothing else happens (T8)", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
      expect(["ok", "TUTTI_INVALID_INPUT", "TUTTI_TOO_LARGE"]).toContain(codeOf(refusalOf(bytes, "infer")));
    }),
  );
});
