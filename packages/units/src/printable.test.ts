import { expect, test } from "vitest";
import { printable, printableLines } from "./printable.ts";

test("what moves a cursor, rings, begins a line or turns the direction of text is shown instead of done", () => {
  expect(printable("a\u001b[2J\u0007b")).toBe("a\\u001b[2J\\u0007b");
  expect(printable("gone\r\n12:00 info  forged")).toBe("gone\\u000d\\n12:00 info  forged");
  expect(printable("\u009b31m\u2028x\u202egpj.\u007f")).toBe("\\u009b31m\\u2028x\\u202egpj.\\u007f");
});

test("letters of all languages stay as they are", () => {
  for (const text of ["größer → 25 ms", "می‌خواهم", "👩‍🔬 日本", "C:\\n"]) expect(printable(text)).toBe(text);
  expect(printable("a\tb")).toBe("a b");
});

test("of several lines the breaks stay, and nothing else", () => {
  expect(printableLines("one\ntwo\u001b[A\r")).toBe("one\ntwo\\u001b[A\\u000d");
});
