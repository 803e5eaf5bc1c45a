import { DATA_TYPES, type DataType, type InferRequest, type Tensor, bytesOf, elementCount } from "@tutti/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  type Form,
  bytesFromJson,
  bytesFromValues,
  decodeAnswer,
  decodeRequest,
  encodeAnswer,
  encodeRequest,
  encodeTensors,
  formOf,
  jsonFromBytes,
  pack,
} from "./index.ts";

const forms: Form[] = ["json", "msgpack", "binary"];
const types = Object.keys(DATA_TYPES) as DataType[];
/** Values that JSON keeps exactly: no NaN payloads, no negative zero, booleans of 0 and 1. */
const element: Record<DataType, fc.Arbitrary<unknown>> = {
  BOOL: fc.boolean(),
  UINT8: fc.nat(255),
  UINT16: fc.nat(65_535),
  UINT32: fc.nat(0xffff_ffff),
  UINT64: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map(String),
  INT8: fc.integer({ min: -128, max: 127 }),
  INT16: fc.integer({ min: -32_768, max: 32_767 }),
  INT32: fc.integer(),
  INT64: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String),
  FP16: fc.oneof(fc.integer({ min: -2_048, max: 2_048 }), fc.constantFrom("Infinity", 0.5, 65_504)),
  FP32: fc.oneof(fc.float({ noNaN: true }), fc.constant("-Infinity")).map((x) => (x === 0 ? 0 : spelled(x))),
  FP64: fc.oneof(fc.double({ noNaN: true }), fc.constant("Infinity")).map((x) => (x === 0 ? 0 : spelled(x))),
};
const spelled = (x: number | string): number | string => (typeof x === "number" && Number.isFinite(x) ? x : String(x));
const tensor: fc.Arbitrary<Tensor> = fc
  .tuple(fc.constantFrom(...types), fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 3 }))
  .chain(([type, dims]) => {
    const length = elementCount(dims);
    return fc.record(
      {
        name: fc.string({ minLength: 1, maxLength: 10 }),
        type: fc.constant(type),
        dims: fc.constant(dims),
        data: fc
          .array(element[type], { minLength: length, maxLength: length })
          .map((values) => bytesFromJson("x", type, dims, values)),
      },
      { noNullPrototype: true },
    );
  });
const plain = (tensors: readonly Tensor[]): unknown =>
  tensors.map(({ name, type, dims, data }) => ({ name, type, dims, data: [...data] }));

test("an object among elements is refused, also one of msgpack's that JSON can't write", () => {
  const refused = expect.objectContaining({ code: "TUTTI_INVALID_INPUT" });
  expect(() => bytesFromValues("x", "FP32", [1], [{ a: 1n }])).toThrow(refused);
  expect(() => bytesFromValues("x", "FP32", [1], [{ a: 1n }])).toThrow("element 0 is an object, which is no FP32");
});

test("JSON, msgpack and binary carry the same tensors", () => {
  fc.assert(
    fc.property(fc.array(tensor, { maxLength: 4 }), (inputs) => {
      for (const form of forms) {
        const payload = encodeRequest(form, { inputs });
        if (form !== "msgpack") expect(formOf(undefined, payload)).toBe(form);
        expect(plain(decodeRequest(form, payload).inputs)).toEqual(plain(inputs));
      }
    }),
  );
});

test("id, wanted outputs and parameters travel in JSON and msgpack", () => {
  const request: InferRequest = { id: "r-1", inputs: [], outputs: ["y", "z"], parameters: { k: 3 } };
  for (const form of ["json", "msgpack"] as const)
    expect(decodeRequest(form, encodeRequest(form, request))).toEqual(request);
});

const json = (body: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(body));
const input = (over: Record<string, unknown>): Uint8Array =>
  json({ inputs: [{ name: "x", shape: [2, 2], datatype: "FP32", data: [1, 2, 3, 4], ...over }] });
const refusal = (payload: Uint8Array, form: Form = "json"): string => {
  try {
    decodeRequest(form, payload);
  } catch (error) {
    return `${(error as { code: string }).code} ${(error as Error).message}`;
  }
  return "accepted";
};

test("flat and nested data are the same tensor", () => {
  const flat = decodeRequest("json", input({}));
  expect(
    plain(
      decodeRequest(
        "json",
        input({
          data: [
            [1, 2],
            [3, 4],
          ],
        }),
      ).inputs,
    ),
  ).toEqual(plain(flat.inputs));
  expect(
    plain(
      decodeRequest(
        "json",
        input({
          shape: [2, 2, 1],
          data: [
            [[1], [2]],
            [[3], [4]],
          ],
        }),
      ).inputs,
    ),
  ).toEqual(plain(decodeRequest("json", input({ shape: [2, 2, 1] })).inputs));
});

test("data that is nested otherwise than its shape says is refused with both, however many elements it has", () => {
  const three = [
    [1, 2],
    [3, 4],
    [5, 6],
  ];
  for (const [shape, data, sizes] of [
    [[2, 3], three, "3, 2"],
    [[6], three, "3, 2"],
    [[1, 3, 2], three, "3, 2"],
    [[3, 2], [three], "1, 3, 2"],
    [[2, 3], [[1, 2, 3, 4, 5, 6]], "1, 6"],
  ] as const)
    expect(refusal(input({ shape, data }))).toMatch(
      `its shape is [${shape.join(", ")}], and data is nested as [${sizes}]: nest it as the shape says, or write one flat list`,
    );
  const bytesOf = (shape: readonly number[], data: readonly unknown[]): number =>
    decodeRequest("json", input({ shape, data })).inputs[0]!.data.byteLength;
  expect(bytesOf([3, 2], three)).toBe(24);
  for (const shape of [
    [2, 0],
    [2, 0, 3],
  ])
    expect([bytesOf(shape, []), bytesOf(shape, [[], []])]).toEqual([0, 0]);
});

test("ragged lists are refused by their place though their elements are as many as the shape has", () => {
  const ragged = (data: unknown[], shape = [2, 3]): string => refusal(input({ shape, data }));
  expect(
    ragged([
      [1, 2],
      [4, 5, 6, 7],
    ]),
  ).toMatch("ragged: data[1] has 4, data[0] has 2");
  expect(
    ragged([
      [[1, 2], [3]],
      [[4, 5], [6]],
    ]),
  ).toMatch("ragged: data[0][1] has 1, data[0][0] has 2");
  expect(ragged([[1, 2], 3, 4, 5, 6])).toMatch("ragged: data[1] is no list, data[0] has 2");
  expect(ragged([[], [1, 2, 3, 4, 5, 6]])).toMatch("ragged: data[1] has 6, data[0] has 0");
  expect(ragged([[1], [[2, 3]]], [2, 1])).toMatch("element 1 is a list of 2, which is no FP32");
  expect(ragged([1, [2, 3, 4, 5, 6]], [2])).toMatch("element 1 is a list of 5, which is no FP32");
  expect(
    ragged([
      [1, 2, 3],
      [4, 5, [6]],
    ]),
  ).toMatch("element 5 is a list of 1, which is no FP32");
});

test("integers of 64 bits come as safe numbers or as strings", () => {
  const wide = (data: unknown[], datatype = "INT64"): string => refusal(input({ datatype, data }));
  const max = "9223372036854775807";
  const { inputs } = decodeRequest("json", input({ datatype: "INT64", data: [1, -5, max, "-9223372036854775808"] }));
  expect(jsonFromBytes("INT64", inputs[0]!.data)).toEqual([1, -5, max, "-9223372036854775808"]);
  expect(wide([1, 2, 3, 2 ** 53])).toMatch(/element 3 is 9007199254740992, which is no INT64 \(write/);
  expect(wide([1, 2, 3, "9223372036854775808"])).toMatch(/no INT64/);
  expect(wide([1, 2, 3, "0x10"])).toMatch(/no INT64/);
  expect(wide([1, 2, 3, "-1"], "UINT64")).toMatch(/no UINT64/);
});

test("what doesn't fit its datatype is INVALID_INPUT and names the tensor and the element", () => {
  const cases: [Record<string, unknown>, RegExp][] = [
    [{ datatype: "BYTES" }, /BYTES \(strings\) is not supported/],
    [{ datatype: "FLOAT" }, /"FLOAT" is no datatype/],
    [{ data: [1, 2, 3] }, /shape \[2, 2\] has 4 elements, data has 3/],
    [{ data: [1, 2, 3, 4, 5] }, /has 4 elements, data has 5/],
    [{ data: [1, 2, 3, null] }, /element 3 is null, which is no FP32/],
    [{ data: [1, 2, 3, "4"] }, /element 3 is "4"/],
    [{ data: [1, 2, 3, 1e39] }, /element 3 is 1e\+39, which is no FP32/],
    [{ data: "abc" }, /data must be a list/],
    [{ data: undefined }, /data must be a list of elements, got nothing/],
    [{ shape: [2, -2] }, /shape must be a list/],
    [{ shape: [1, 1, 1, 1, 1, 1, 1, 2, 2] }, /at most 8 sizes/],
    [{ shape: [0xffff_ffff, 0xffff_ffff] }, /data has 4/],
    [{ datatype: "UINT8", data: [0, 1, 2, 256] }, /element 3 is 256, which is no UINT8/],
    [{ datatype: "INT8", data: [0, 1, 2, 0.5] }, /no INT8/],
    [{ datatype: "INT32", data: [0, 1, 2, "Infinity"] }, /no INT32/],
    [{ datatype: "BOOL", data: [true, 0, 1, 2] }, /element 3 is 2, which is no BOOL/],
    [{ datatype: "FP16", data: [0, 0, 0, 65_520] }, /no FP16/],
    [{ name: 3 }, /name must be a string/],
    [{ name: undefined }, /name must be a string of 1 to 256 characters, got nothing/],
  ];
  for (const [over, expected] of cases) {
    expect(refusal(input(over))).toMatch(expected);
    expect(refusal(input(over))).toMatch(/^TUTTI_INVALID_INPUT/);
  }
  expect(refusal(json([]))).toMatch("the payload is no object");
  expect(refusal(json({}))).toMatch("inputs must be a list of tensors, got nothing");
  expect(refusal(json({ inputs: new Array(65).fill({}) }))).toMatch("65 tensors, at most 64");
  expect(refusal(new TextEncoder().encode('{"inputs":['))).toMatch("unreadable JSON");
  expect(refusal(json({ inputs: [], outputs: ["y"] }))).toMatch("outputs[0] must be an object with a name");
  expect(refusal(input({ data: [[[[[[[[[[1]]]]]]]]]] }))).toMatch("nested more than 8 deep");
});

test("the greatest FP32 is accepted as people print it, and what is not finite by its name", () => {
  const data = [3.4028235e38, "NaN", "Infinity", "-Infinity"];
  const { inputs } = decodeRequest("json", input({ data }));
  expect(jsonFromBytes("FP32", inputs[0]!.data)).toEqual([3.4028235e38, "NaN", "Infinity", "-Infinity"]);
});

test("FP32 values are printed as short as they can be and still come back exactly", () => {
  fc.assert(
    fc.property(fc.float({ noNaN: true, noDefaultInfinity: true }), (x) => {
      const [printed] = jsonFromBytes("FP32", new Uint8Array(Float32Array.of(x).buffer));
      expect(Math.fround(printed as number) === x).toBe(true);
    }),
  );
  expect(jsonFromBytes("FP32", new Uint8Array(Float32Array.of(0.1).buffer))).toEqual([0.1]);
});

test("raw data in msgpack must have the length of its shape, and elements may be listed", () => {
  const body = (data: unknown): Uint8Array => pack({ inputs: [{ name: "x", shape: [2], datatype: "FP32", data }] });
  const raw = new Uint8Array(Float32Array.of(1, NaN).buffer);
  expect(plain(decodeRequest("msgpack", body(raw)).inputs)).toEqual(
    plain(decodeRequest("msgpack", body([1, NaN])).inputs),
  );
  expect(refusal(body(raw.subarray(1)), "msgpack")).toMatch("takes 8 bytes of data, got 7");
  expect(refusal(new Uint8Array([0xc1]), "msgpack")).toMatch("TUTTI_INVALID_INPUT unreadable msgpack");
});

test("inputs past the limit are TOO_LARGE", () => {
  const data = new Uint8Array(4_194_305);
  const message = encodeTensors([{ name: "x", type: "UINT8", dims: [data.byteLength], data }]);
  expect(refusal(message, "binary")).toMatch(/^TUTTI_TOO_LARGE the inputs have 4194305 bytes/);
});

test("garbage in any form is a TuttiError", () => {
  fc.assert(
    fc.property(fc.constantFrom(...forms), fc.uint8Array({ maxLength: 80 }), (form, payload) => {
      expect(refusal(payload, form)).toMatch(/^(accepted|TUTTI_INVALID_INPUT)/);
    }),
    { numRuns: 500 },
  );
  const almost = fc
    .json({ maxDepth: 4 })
    .map((text) => new TextEncoder().encode(`{"inputs":[{"name":"x","datatype":"INT8","shape":[1],"data":${text}}]}`));
  fc.assert(
    fc.property(almost, (payload) => {
      expect(refusal(payload)).toMatch(/^(accepted|TUTTI_INVALID_INPUT)/);
    }),
  );
});

test("an answer says the same in every form, and outputs can be selected", () => {
  const y: Tensor = { name: "y", type: "FP32", dims: [1, 2], data: new Uint8Array(Float32Array.of(1, 2).buffer) };
  const z: Tensor = { name: "z", type: "BOOL", dims: [1], data: Uint8Array.of(1) };
  const tensors = encodeTensors([y, z]);
  const answer = { model: "mlp", version: "3", id: "a", tensors };
  expect(encodeAnswer("binary", answer)).toBe(tensors);
  for (const form of forms) {
    const all = decodeAnswer(form, encodeAnswer(form, answer));
    expect(plain(all.outputs)).toEqual(plain([y, z]));
    if (form !== "binary") expect([all.model, all.version, all.id]).toEqual(["mlp", "3", "a"]);
    const some = decodeAnswer(form, encodeAnswer(form, { ...answer, wanted: ["z", "unknown"] }));
    expect(plain(some.outputs)).toEqual(plain([z]));
  }
  expect(JSON.parse(new TextDecoder().decode(encodeAnswer("json", answer)))).toEqual({
    model_name: "mlp",
    model_version: "3",
    id: "a",
    outputs: [
      { name: "y", shape: [1, 2], datatype: "FP32", data: [1, 2] },
      { name: "z", shape: [1], datatype: "BOOL", data: [true] },
    ],
  });
});

test("a form is told by its content type, else by the first bytes", () => {
  const none = new Uint8Array();
  expect(formOf("application/json; charset=utf-8", none)).toBe("json");
  expect(formOf("Application/MsgPack", none)).toBe("msgpack");
  expect(formOf("application/vnd.tutti.tensor", none)).toBe("binary");
  expect(formOf("text/plain", json({}))).toBeUndefined();
  expect(formOf(undefined, new TextEncoder().encode(' \n{"inputs":[]}'))).toBe("json");
  expect(formOf("", encodeTensors([]))).toBe("binary");
  expect(formOf(undefined, new Uint8Array([0x81, 1]))).toBeUndefined();
});

test("element sizes are those of the protocol", () => {
  for (const type of types) expect(bytesFromJson("x", type, [1], [1]).byteLength).toBe(bytesOf(type));
});

test("a content type that every object inherits a property of is no form", () => {
  const payload = input({});
  for (const name of ["constructor", "toString", "__proto__", "hasOwnProperty", "constructor; charset=utf-8"])
    expect(formOf(name, payload), name).toBe(undefined);
  expect(formOf("Application/JSON; charset=utf-8", payload)).toBe("json");
});

test("a number of JSON that is too large for any double is refused, and an infinite one of msgpack or as text is taken", () => {
  const body = (datatype: string, number: string): Uint8Array =>
    new TextEncoder().encode(`{"inputs":[{"name":"x","shape":[1],"datatype":"${datatype}","data":[${number}]}]}`);
  for (const datatype of ["FP16", "FP32", "FP64", "INT32", "INT64", "BOOL"])
    for (const number of ["1e400", "-1e400"])
      expect(refusal(body(datatype, number)), `${datatype} ${number}`).toMatch(/^TUTTI_INVALID_INPUT .*Infinity/);
  for (const datatype of ["FP16", "FP32", "FP64"])
    expect(refusal(body(datatype, '"-Infinity"'))).not.toContain("TUTTI");
  const packed = pack({ inputs: [{ name: "x", shape: [1], datatype: "FP64", data: [Infinity] }] });
  expect(decodeRequest("msgpack", packed).inputs[0]?.data).toEqual(new Uint8Array(Float64Array.of(Infinity).buffer));
});

test("names that objects inherit are names of tensors like any other", () => {
  for (const name of ["__proto__", "constructor", "toString"]) {
    const request = `{"inputs":[{"name":"${name}","shape":[1],"datatype":"UINT8","data":[7]}],"__proto__":{"id":"x"}}`;
    const { id, inputs } = decodeRequest("json", new TextEncoder().encode(request));
    expect([id, inputs[0]?.name, inputs[0]?.data]).toEqual([undefined, name, Uint8Array.of(7)]);
  }
});
