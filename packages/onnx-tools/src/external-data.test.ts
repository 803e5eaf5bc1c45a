import { type DescField, type DescMessage, type MessageShape, create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { type GraphProto, ModelProtoSchema, TensorProtoSchema } from "onnx-buf";
import { externalDataProblem } from "@tutti/ports/engine";
import { expect, test } from "vitest";
import { LEAK_PLACES, ModelFileError, demoModel, demoModelPath, describeModel, generateLeak } from "./index.ts";
import { readFileSync } from "node:fs";

const OUTSIDE = /^tensor 'bytes' lies outside the file: save the model as one file/;
/** Field 13 of a tensor with nothing in it, and field 14: EXTERNAL. */
const EXTERNAL = [
  [0x6a, 0x00],
  [0x70, 0x01],
] as const;

/** Field numbers and lengths as protobuf writes them. */
const varint = (number: number): number[] =>
  number < 0x80 ? [number] : [(number & 0x7f) | 0x80, ...varint(number >>> 7)];
const tagged = (field: number, wireType: number, ...content: readonly number[]): number[] => [
  ...varint(field * 8 + wireType),
  ...content,
];
const within = (field: number, content: readonly number[]): number[] =>
  tagged(field, 2, ...varint(content.length), ...content);

test.each(LEAK_PLACES)("a tensor in another file is refused wherever it stands: %s", (place) => {
  const refusal = (() => {
    try {
      return describeModel(generateLeak({ place, location: "secret" }));
    } catch (error) {
      return error;
    }
  })();
  expect(refusal).toBeInstanceOf(ModelFileError);
  expect(refusal).toMatchObject({ fault: "unsupported", message: expect.stringMatching(OUTSIDE) });
  expect(describeModel(generateLeak({ place })).outputs).toHaveLength(1);
});

test("every way to a tensor that the format knows is looked at", () => {
  const ways = [...waysToTensors(ModelProtoSchema, [])];
  // Each is a chain of field numbers, such as graph, node, attribute, t.
  expect(ways.length).toBeGreaterThan(30);
  for (const way of ways)
    for (const tensor of EXTERNAL) {
      const bytes = Uint8Array.from(
        way.reduceRight<readonly number[]>((content, field) => within(field, content), tensor),
      );
      expect([way, externalDataProblem(bytes)]).toEqual([way, expect.stringContaining("lies outside the file")]);
      expect(
        externalDataProblem(
          Uint8Array.from(way.reduceRight<readonly number[]>((content, field) => within(field, content), [])),
        ),
      ).toBe(undefined);
    }
});

/** Through each message of a kind at most once. */
function* waysToTensors(from: DescMessage, seen: readonly DescMessage[]): Generator<readonly number[]> {
  for (const field of from.fields) {
    const to = messageOf(field);
    if (to === undefined || seen.includes(to)) continue;
    if (to.typeName === TensorProtoSchema.typeName) yield [field.number];
    else for (const way of waysToTensors(to, [...seen, from])) yield [field.number, ...way];
  }
}
const messageOf = (field: DescField): DescMessage | undefined =>
  field.fieldKind === "message" || (field.fieldKind === "list" && field.listKind === "message")
    ? field.message
    : undefined;

test("bytes that parsers read differently are refused, so that none sees a tensor that this one does not", () => {
  const graph = within(7, within(5, EXTERNAL[1]));
  const hidden = {
    "a field of another wire type": tagged(7, 0, ...graph),
    "a tag of more than 32 bits": [0xba, 0x80, 0x80, 0x80, 0x10, graph.length - 2, ...graph.slice(2)],
    "a group": tagged(7, 3, ...graph, ...tagged(7, 4)),
    "a length beyond the end": tagged(99, 2, 0x7f, ...graph),
    "a number without an end": tagged(99, 0, ...new Array<number>(11).fill(0xff)),
    "a field without a number": [0x02, ...graph],
  };
  for (const [what, bytes] of Object.entries(hidden))
    expect([what, externalDataProblem(Uint8Array.from(bytes))]).toEqual([what, expect.stringContaining("damaged")]);
  const split = [...within(7, within(5, EXTERNAL[0])), ...within(7, within(5, EXTERNAL[1]))];
  expect(externalDataProblem(Uint8Array.from(split))).toContain("lies outside");
  // 2^32 + 1, of which C++ keeps the last 32 bits.
  const long = within(7, within(5, tagged(14, 0, 0x81, 0x80, 0x80, 0x80, 0x10)));
  expect(externalDataProblem(Uint8Array.from(long))).toContain("lies outside");
  let deep: number[] = [];
  for (let i = 0; i < 60; i++) deep = within(1, within(5, within(6, deep)));
  expect(externalDataProblem(Uint8Array.from(within(7, deep)))).toContain("nested");
});

test("onnxruntime's own format, which it takes in place of ONNX, is refused", () => {
  const model = generateLeak({ place: "constant" });
  // One unknown field in front, which protobuf skips.
  const polyglot = Uint8Array.from([...tagged(127, 2), 0x04, 0x00, ...Buffer.from("ORTM"), ...model]);
  expect(Buffer.from(polyglot.subarray(4, 8)).toString()).toBe("ORTM");
  expect(externalDataProblem(polyglot)).toContain("own format");
});

test("real files pass", () => {
  for (const name of ["silero-vad", "ocr-rec"])
    expect(externalDataProblem(readFileSync(demoModelPath(demoModel(name), { cacheDir: "unused" })))).toBe(undefined);
});

test("a file that says where its tensors lie, and that they lie in it, passes", () => {
  const model: MessageShape<typeof ModelProtoSchema> = fromBinary(
    ModelProtoSchema,
    generateLeak({ place: "initializer" }),
  );
  const graph = model.graph as GraphProto;
  graph.initializer = graph.initializer.map((tensor) => create(TensorProtoSchema, { ...tensor, dataLocation: 0 }));
  expect(externalDataProblem(toBinary(ModelProtoSchema, model))).toBe(undefined);
});
