import type { RgbImage } from "@tutti/onnx-tools";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Character, type Span, gapsOf, piecesOf, readCharacters, spaced, windowsOf } from "./index.ts";

/** One column a letter of the picture: "#" print, "." ground. */
function lineOf(picture: string, { print = 20, ground = 230 } = {}): RgbImage {
  const [width, height] = [picture.length, 48];
  const rgb = new Uint8Array(width * height * 3).fill(ground);
  for (let x = 0; x < width; x++)
    if (picture[x] === "#") for (let y = 16; y < 28; y++) rgb.fill(print, (y * width + x) * 3, (y * width + x) * 3 + 3);
  return { rgb, width, height };
}
const span = (from: number, to: number): Span => ({ from, to });

test("gaps are the columns without print, dark on light and light on dark", () => {
  const expected = [span(0, 3), span(5, 6), span(9, 14)];
  expect(gapsOf(lineOf("...##.###....."))).toEqual(expected);
  expect(gapsOf(lineOf("...##.###.....", { print: 250, ground: 30 }))).toEqual(expected);
  expect(gapsOf(lineOf("###"))).toEqual([]);
});

test("a line that fits is one piece", () => {
  expect(piecesOf(320, [span(100, 110)], 320)).toEqual([span(0, 320)]);
});

test("a longer line is cut in the middle of the widest gap, of alike ones the one nearest to even halves", () => {
  expect(piecesOf(400, [span(100, 104), span(150, 170), span(230, 234)], 320)).toEqual([span(0, 160), span(160, 400)]);
  expect(piecesOf(400, [span(110, 130), span(190, 208), span(280, 300)], 320)).toEqual([span(0, 199), span(199, 400)]);
  expect(piecesOf(400, [], 320)).toEqual([span(0, 320), span(320, 400)]);
});

test("pieces lie side by side, fill the line and are no wider than they may be, wherever gaps are", () => {
  const gap = fc.tuple(fc.nat(3_000), fc.integer({ min: 1, max: 40 })).map(([from, width]) => span(from, from + width));
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 2_880 }), fc.array(gap, { maxLength: 80 }), (width, gaps) => {
      const pieces = piecesOf(width, gaps, 320);
      expect([pieces[0]?.from, pieces.at(-1)?.to]).toEqual([0, width]);
      for (const [i, { from, to }] of pieces.entries()) {
        expect(to - from).toBeGreaterThan(0);
        expect(to - from).toBeLessThanOrEqual(320);
        if (i > 0) expect(from).toBe(pieces[i - 1]?.to);
      }
      expect(pieces.length).toBeLessThanOrEqual(2 * Math.ceil(width / 320) + 1);
    }),
  );
});

const letters = (text: string, at: readonly number[]): Character[] =>
  [...text].map((each, i) => ({ text: each, probability: 1, at: at[i] as number }));

test("a space is put where print has a gap as wide as half a character, once, and not at the ends", () => {
  const at = [10, 30, 65, 85];
  expect(spaced(letters("abcd", at), [span(19, 21), span(40, 55), span(74, 76)])).toBe("ab cd");
  expect(spaced(letters("abcd", at), [span(0, 4), span(19, 21), span(95, 140)])).toBe("abcd");
  expect(spaced(letters("ab cd", [10, 30, 47, 65, 85]), [span(40, 55)])).toBe("ab cd");
  expect(spaced(letters("ab  cd", [10, 30, 44, 50, 65, 85]), [])).toBe("ab cd");
  expect(spaced(letters(" a ", [1, 10, 20]), [span(0, 8)])).toBe("a");
  expect(spaced([], [span(0, 100)])).toBe("");
});

test("the points of fixed-width prices are no spaces: 24.31 as the receipt has it", () => {
  const gaps = [span(24, 28), span(50, 60), span(68, 79), span(102, 107)];
  expect(spaced(letters("24.31", [12, 38, 64, 90, 116]), gaps)).toBe("24.31");
});

test("no letter is lost, moved or made up by spacing", () => {
  const character = fc.constantFrom(..."abc ").map((text) => ({ text, probability: 1 }));
  const gap = fc.tuple(fc.nat(400), fc.nat(60)).map(([from, width]) => span(from, from + width));
  fc.assert(
    fc.property(fc.array(character, { maxLength: 30 }), fc.array(gap, { maxLength: 20 }), (given, gaps) => {
      const text = spaced(
        given.map((each, i) => ({ ...each, at: 10 + i * 12 })),
        gaps,
      );
      const bare = given.map((each) => each.text).join("");
      expect(text.replaceAll(" ", "")).toBe(bare.replaceAll(" ", ""));
      expect(text).not.toMatch(/^ | $| {2}/);
    }),
  );
});

test("CTC: repeats are merged, a blank divides them, and each character stands at its surest step", () => {
  const classes = [0, 1, 1, 0, 1, 2, 2, 3, 0];
  const sure = [0.9, 0.6, 0.8, 0.9, 0.7, 0.9, 0.5, 0.6, 0.9];
  const values = new Float32Array(classes.length * 4).fill(0.01);
  for (const [step, best] of classes.entries()) values[step * 4 + best] = sure[step] as number;
  const found = readCharacters(values, ["a", "b", " "]);
  expect(found.map(({ text }) => text).join("")).toBe("aab ");
  expect(found.map(({ at }) => at)).toEqual([2.5, 4.5, 5.5, 7.5]);
  expect(found.map(({ probability }) => Number(probability.toFixed(2)))).toEqual([0.8, 0.7, 0.9, 0.6]);
  expect(readCharacters(new Float32Array(0), ["a"])).toEqual([]);
});

test("CTC reads what a naive collapse of the likeliest path reads", () => {
  fc.assert(
    fc.property(fc.array(fc.nat(4), { maxLength: 40 }), (path) => {
      const values = new Float32Array(path.length * 5);
      for (const [step, best] of path.entries()) values[step * 5 + best] = 1;
      const naive = path.filter((each, i) => each !== path[i - 1] && each !== 0).map((each) => "wxyz"[each - 1]);
      expect(readCharacters(values, [..."wxyz"]).map(({ text }) => text)).toEqual(naive);
    }),
  );
});

test("the classifier looks at a line's begin, its middle and its end, and once at a short one", () => {
  expect([1, 192, 383].map(windowsOf)).toEqual([[0], [0], [0]]);
  expect(windowsOf(384)).toEqual([0, 192]);
  expect(windowsOf(1_000)).toEqual([0, 404, 808]);
});
