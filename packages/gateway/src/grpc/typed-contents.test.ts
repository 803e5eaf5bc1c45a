import { type DataType, TuttiError } from "@tutti/protocol";
import { bytesFromValues } from "@tutti/wire";
import fc from "fast-check";
import { expect, test } from "vitest";
import { unpackElements } from "../oip/bytes-elements.ts";
import { inferenceService } from "./grpc-front.ts";
import { readInferMessage } from "./infer-message.ts";
import { field, varint } from "./testing/encoded-fields.ts";
import { bytesFromContents } from "./typed-contents.ts";

const { ModelInfer } = inferenceService().service;
/** Contents as the protocol's own encoder packs them. */
const packed = (name: string, values: readonly unknown[]): readonly Buffer[] =>
  readInferMessage(ModelInfer!.requestSerialize({ inputs: [{ name: "x", contents: { [name]: values } }] })).inputs[0]!
    .contents;
const fixed32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return bytes;
};
const fixed64 = (value: number): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleLE(value);
  return bytes;
};

interface Kind {
  readonly field: string;
  readonly values: fc.Arbitrary<unknown>;
  /** A single element as a field of its own. */
  readonly single: (value: never) => Buffer;
}
const whole = (number: number) => (value: number | bigint | boolean) => field(number, 0, varint(BigInt(value)));
const int = (bits: number): Kind => ({
  field: "int_contents",
  values: fc.integer({ min: -(2 ** (bits - 1)), max: 2 ** (bits - 1) - 1 }),
  single: whole(2),
});
const uint = (bits: number): Kind => ({
  field: "uint_contents",
  values: fc.integer({ min: 0, max: 2 ** bits - 1 }),
  single: whole(4),
});
const KINDS: Readonly<Record<Exclude<DataType, "FP16">, Kind>> = {
  BOOL: { field: "bool_contents", values: fc.boolean(), single: whole(1) },
  ...{ INT8: int(8), INT16: int(16), INT32: int(32), UINT8: uint(8), UINT16: uint(16), UINT32: uint(32) },
  INT64: {
    field: "int64_contents",
    values: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    single: (value: bigint) => field(3, 0, varint(value)),
  },
  UINT64: {
    field: "uint64_contents",
    values: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
    single: (value: bigint) => field(5, 0, varint(value)),
  },
  FP32: { field: "fp32_contents", values: fc.float(), single: (value: number) => field(6, 5, fixed32(value)) },
  FP64: { field: "fp64_contents", values: fc.double(), single: (value: number) => field(7, 1, fixed64(value)) },
};

test.each(Object.entries(KINDS))(
  "%s is read from its field, packed, one by one, and in several pieces",
  (given, kind) => {
    const type = given as DataType;
    fc.assert(
      fc.property(fc.array(kind.values, { maxLength: 40 }), fc.nat(40), (values, at) => {
        const dims = [values.length];
        const expected = bytesFromValues("x", type, dims, values);
        const text = values.map((value) => (typeof value === "bigint" ? String(value) : value));
        const singles = (some: readonly unknown[]) => Buffer.concat(some.map((value) => kind.single(value as never)));
        const wanted = { name: "x", type, dims };
        expect(bytesFromContents(wanted, packed(kind.field, text))).toEqual(expected);
        expect(bytesFromContents(wanted, [singles(values)])).toEqual(expected);
        const mixed = [...packed(kind.field, text.slice(0, at)), singles(values.slice(at))];
        expect(bytesFromContents(wanted, mixed)).toEqual(expected);
      }),
    );
  },
);

test("elements of BYTES are packed behind their lengths", () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 200 }), { maxLength: 10 }), (values) => {
      const buffers = values.map((value) => Buffer.from(value));
      const bytes = bytesFromContents(
        { name: "x", type: "BYTES", dims: [values.length] },
        packed("bytes_contents", buffers),
      );
      expect(unpackElements(bytes)?.map((one) => [...one])).toEqual(values.map((one) => [...one]));
    }),
  );
});

test("more or fewer elements than the shape has are refused, and of more no further one is read", () => {
  for (const [type, { field: name }] of Object.entries(KINDS)) {
    const wanted = { name: "x", type: type as DataType, dims: [3] };
    expect(() => bytesFromContents(wanted, packed(name, Array(4).fill(1))), type).toThrow(
      "has 3 elements, data has more",
    );
    expect(() => bytesFromContents(wanted, packed(name, [1, 1])), type).toThrow("has 3 elements, data has 2");
    // A shape of a few bytes makes nothing of its own size.
    const huge = { ...wanted, dims: [2 ** 32 - 1, 2 ** 20] };
    expect(() => bytesFromContents(huge, packed(name, [1])), type).toThrow("data has 1");
  }
  const one = { name: "x", type: "BYTES", dims: [1] } as const;
  expect(() => bytesFromContents(one, packed("bytes_contents", [Buffer.from("a"), Buffer.from("b")]))).toThrow(
    "bytes_contents has more",
  );
  // Unreadable behind the elements that are wanted: nobody has looked.
  const endless = Buffer.concat([varint(1), varint(1), Buffer.alloc(50_000, 0xff)]);
  expect(() => bytesFromContents({ name: "x", type: "INT64", dims: [0] }, [field(3, 2, endless)])).toThrow(
    "data has more",
  );
});

test("a megabyte of integers costs what copying it costs, and not a string or a bigint for each", () => {
  const count = 1_000_000;
  const small = [field(3, 2, Buffer.alloc(count, 1))];
  const wanted = { name: "x", type: "INT64", dims: [count] } as const;
  const least = (run: () => unknown): number =>
    Math.min(
      ...Array.from({ length: 7 }, () => {
        const startedAt = performance.now();
        run();
        return performance.now() - startedAt;
      }),
    );
  const strings = Array<string>(count).fill("1");
  const reading = least(() => bytesFromContents(wanted, small));
  // 100 ms where each is a string; the least of several runs is little moved by what else the machine does.
  const making = least(() => bytesFromValues("x", "INT64", [count], strings));
  expect(reading).toBeLessThan(making / 5);
  const few = { ...wanted, dims: [16] };
  const refusing = least(() => expect(() => bytesFromContents(few, small)).toThrow("data has more"));
  expect(refusing).toBeLessThan(making / 50);
});

test("whatever the contents are, they are read or refused (T8)", () => {
  const types = fc.constantFrom(
    ...(Object.keys(KINDS) as DataType[]),
    "BYTES" as const,
    "FP16" as const,
    "BF16" as const,
  );
  const pieces = fc.array(fc.uint8Array({ maxLength: 60 }), { maxLength: 3 });
  fc.assert(
    fc.property(types, fc.array(fc.nat(9), { maxLength: 3 }), pieces, (type, dims, contents) => {
      try {
        bytesFromContents(
          { name: "x", type, dims },
          contents.map((piece) => Buffer.from(piece)),
        );
      } catch (error) {
        expect(error).toBeInstanceOf(TuttiError);
        expect((error as TuttiError).code).toBe("TUTTI_INVALID_INPUT");
      }
    }),
  );
});
