import { schema, stored } from "@tutti/protocol";
import { expect, test } from "vitest";
import { newerForm, readStored, toJson, writeStored } from "./index.ts";

const Point = stored("point", 2, schema.record({ x: schema.count, label: schema.optional(schema.text()) }));

test("a value says its form first, and is read without it (STORED-1)", () => {
  const bytes = writeStored(Point, { x: 7 });
  expect(new TextDecoder().decode(bytes)).toBe('{"form":2,"x":7}');
  expect(readStored(bytes, Point)).toEqual({ x: 7 });
});

test("a value without a form has the first, and members that a newer release has added are kept (STORED-2)", () => {
  expect(readStored(toJson({ x: 7 }), Point)).toEqual({ x: 7 });
  expect(readStored(toJson({ form: 1, x: 7, y: 8 }), Point)).toEqual({ x: 7, y: 8 });
});

test("a value of a newer form is not read, even if it would pass, and the reason is for people (STORED-4)", () => {
  const newer = toJson({ form: 3, x: 7 });
  expect(readStored(newer, Point)).toBeUndefined();
  expect(newerForm(newer, Point)).toBe(
    "the point was written by a newer release (form 3, and this release reads up to 2): upgrade this one",
  );
});

test("the first release with a new form reads it, and writes the one that its neighbour reads (STORED-3)", () => {
  const shape = schema.record({ x: schema.count });
  const [before, first, next] = [
    stored("point", 1, shape),
    stored("point", { reads: 2, writes: 1 }, shape),
    stored("point", 2, shape),
  ];
  const [old, written, newest] = [before, first, next].map((kind) => writeStored(kind, { x: 7 }));
  for (const bytes of [old!, written!]) expect(readStored(bytes, before)).toEqual({ x: 7 });
  for (const bytes of [old!, written!, newest!]) expect(readStored(bytes, first)).toEqual({ x: 7 });
  expect(readStored(newest!, before)).toBeUndefined();
  expect(newerForm(newest!, first)).toBeUndefined();
  expect(() => stored("point", { reads: 3, writes: 1 }, shape)).toThrow();
});

test("what no release has written is unreadable, and not newer (T8)", () => {
  for (const text of [
    "{nope",
    "7",
    "null",
    '{"form":"3","x":7}',
    '{"form":0,"x":7}',
    '{"form":1.5,"x":7}',
    '{"x":-7}',
  ]) {
    const bytes = new TextEncoder().encode(text);
    expect([readStored(bytes, Point), newerForm(bytes, Point)], text).toEqual([undefined, undefined]);
  }
});
