import { ALWAYS, NEVER } from "@tutti/units";
import { expect, expectTypeOf, test } from "vitest";
import { type Static, schema } from "./schema.ts";

const Point = schema.record({
  x: schema.count,
  label: schema.optional(schema.text(3)),
  tags: schema.list(schema.flag, 2),
});

test("a record is accepted with all that it must have, and the type follows", () => {
  expectTypeOf<Static<typeof Point>>().toEqualTypeOf<{
    readonly x: number;
    readonly tags: readonly boolean[];
    readonly label?: string;
  }>();
  expect(Point({ x: 1, tags: [] })).toBe(true);
  expect(Point({ x: 1, tags: [true, false], label: "abc", more: 1 })).toBe(true);
  for (const bad of [
    ...[undefined, null, 7, "x", [], {}],
    ...[{ x: 1 }, { x: -1, tags: [] }, { x: 1.5, tags: [] }, { x: 1, tags: [1] }, { x: 1, tags: [true, true, true] }],
    ...[
      { x: 1, tags: [], label: "abcd" },
      { x: 1, tags: [], label: null },
      { x: 1, tags: { length: 0 } },
    ],
  ])
    expect(Point(bad), JSON.stringify(bad)).toBe(false);
});

test("instants may be NEVER and ALWAYS, times that are spent may not, and nothing is NaN", () => {
  expect([NEVER, ALWAYS, 0].map((value) => schema.instant(value))).toEqual([true, true, true]);
  expect([NEVER, ALWAYS, -1, 0.5].map((value) => schema.time(value))).toEqual([false, false, false, false]);
  for (const one of [
    schema.instant,
    schema.micros,
    schema.time,
    schema.count,
    schema.finite,
    schema.units,
    schema.actor,
  ])
    expect(one(NaN)).toBe(false);
});

test("what is looked up is the value's own: a choice is one of those that are listed", () => {
  const choice = schema.oneOf(["some", "all"]);
  expect(["some", "all", "none", "constructor", 0, undefined].map((value) => choice(value))).toEqual([
    ...[true, true, false, false, false, false],
  ]);
  expect([schema.bytes(2)(new Uint8Array(2)), schema.bytes(2)(new Uint8Array(3)), schema.bytes(2)([1, 2])]).toEqual([
    ...[true, false, false],
  ]);
});

test("a map has values of one kind under any name, or under names of one kind", () => {
  const Sizes = schema.map(schema.count);
  expectTypeOf<Static<typeof Sizes>>().toEqualTypeOf<Readonly<Record<string, number>>>();
  expect([{}, { a: 1, toString: 2 }, { a: -1 }, [], null, "a"].map((value) => Sizes(value))).toEqual([
    ...[true, true, false, false, false, false],
  ]);
  const Named = schema.map(schema.count, { name: schema.name, most: 1 });
  expect([{ a: 1 }, { "a b": 1 }, { a: 1, b: 2 }].map((value) => Named(value))).toEqual([true, false, false]);
});

test("items of a list may be of one of two kinds, and may need to differ", () => {
  const Mixed = schema.list(schema.either(schema.flag, schema.count));
  expectTypeOf<Static<typeof Mixed>>().toEqualTypeOf<readonly (number | boolean)[]>();
  expect([[true, 1], ["1"]].map((value) => Mixed(value))).toEqual([true, false]);
  const Points = schema.distinct(schema.record({ x: schema.count }), 2, ({ x }) => x);
  expect(
    [
      [{ x: 1 }, { x: 2 }],
      [{ x: 1 }, { x: 1 }],
      [{ x: 1 }, { x: 2 }, { x: 3 }],
    ].map((p) => Points(p)),
  ).toEqual([...[true, false, false]]);
});
