import type { TuttiError } from "@tutti/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import { inferenceService } from "./grpc-front.ts";
import { GRPC_LOAD_FIELDS_MAX, GRPC_SHORT_BYTES_MAX, refusalOf } from "./message-scan.ts";
import { field } from "./testing/encoded-fields.ts";

const { RepositoryModelLoad, ServerLive } = inferenceService().service;
const codeOf = (refusal: TuttiError | undefined): string => refusal?.code ?? "ok";
const nothing = Buffer.alloc(0);

test("what the protocol's own encoder makes may be decoded", () => {
  const name = fc.string({ maxLength: 8 });
  const value = fc.oneof(
    fc.record({ int64_param: fc.integer() }),
    fc.record({ bytes_param: fc.uint8Array({ maxLength: 2_000 }).map((bytes) => Buffer.from(bytes)) }),
  );
  const request = fc.record({ model_name: name, parameters: fc.dictionary(name, value, { maxKeys: 200 }) });
  fc.assert(
    fc.property(request, (one) => {
      expect(codeOf(refusalOf(RepositoryModelLoad!.requestSerialize(one), "load"))).toBe("ok");
    }),
  );
  const file = {
    parameters: { "file:1/model.onnx": { bytes_param: Buffer.alloc(5_000_000) }, k: { bool_param: true } },
  };
  expect(codeOf(refusalOf(RepositoryModelLoad!.requestSerialize(file), "load"))).toBe("ok");
  expect(codeOf(refusalOf(ServerLive!.requestSerialize({}), "short"))).toBe("ok");
});

test("a message of more fields than may be is refused before objects are made of them", () => {
  const many = (number: number, count: number): Buffer => Buffer.concat(Array(count).fill(field(number, 2, nothing)));
  for (const number of [1, 3, 15]) {
    expect(codeOf(refusalOf(many(number, GRPC_LOAD_FIELDS_MAX), "load")), `field ${number}`).toBe("ok");
    expect(codeOf(refusalOf(many(number, GRPC_LOAD_FIELDS_MAX + 1), "load"))).toBe("TUTTI_TOO_LARGE");
  }
  const entry = field(3, 2, field(2, 2, many(9, GRPC_LOAD_FIELDS_MAX)));
  expect(codeOf(refusalOf(entry, "load"))).toBe("TUTTI_TOO_LARGE");
  expect(codeOf(refusalOf(Buffer.alloc(GRPC_SHORT_BYTES_MAX + 1), "short"))).toBe("TUTTI_TOO_LARGE");
});

test("a tag that gives a field another type than it has, a group and a varint that is too long are refused (MS1)", () => {
  const hidden = [
    Buffer.concat([Buffer.from([(3 << 3) | 5, 0x88, 0x80, 0x80, 0x01]), field(4, 2, Buffer.alloc(2_000_000))]),
    Buffer.from([(3 << 3) | 0, 4, 8, 0, 8, 0]),
    Buffer.from([(15 << 3) | 3, (15 << 3) | 4]),
    Buffer.from([(15 << 3) | 2, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01]),
    Buffer.concat([Buffer.from([15 << 3]), Buffer.alloc(10, 0x80), Buffer.from([0])]),
    Buffer.from([2, 0]),
  ];
  for (const bytes of hidden) expect(codeOf(refusalOf(bytes, "load"))).toBe("TUTTI_INVALID_INPUT");
});

test("whatever bytes come, they are refused or decoded, and nothing else happens (T8)", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
      expect(["ok", "TUTTI_INVALID_INPUT", "TUTTI_TOO_LARGE"]).toContain(codeOf(refusalOf(Buffer.from(bytes), "load")));
    }),
  );
});
