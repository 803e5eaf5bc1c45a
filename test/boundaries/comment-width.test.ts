/** Tests of the lint rule on the width of comments. */
import { Linter } from "eslint";
import { expect, test } from "vitest";
import { commentWidth } from "../../infra/lint/comment-width.mjs";

const WORDS = "eleven words that are said again and again to be long ".repeat(3).trim();

function fixed(text: string): string {
  const rules = { "comment-width": commentWidth };
  const config = { plugins: { prose: { rules } }, rules: { "prose/comment-width": "error" } } as const;
  return new Linter().verifyAndFix(text, [config]).output;
}
const widest = (text: string): number => Math.max(...text.split("\n").map((line) => line.length));

test("a comment that is too wide is filled anew, and nothing but white space changes", () => {
  const text = `/** ${WORDS} */\nconst a = 1;\n\n  // ${WORDS}\n  // ends here.\n  const b = 2;\n`;
  const out = fixed(text);
  expect(widest(out)).toBeLessThanOrEqual(120);
  expect(out).toContain("\n * ");
  expect(out.replace(/[\s/*]+/g, " ")).toBe(text.replace(/[\s/*]+/g, " "));
  expect(fixed(out)).toBe(out);
});

test("rules and items hang, tags are indented, other paragraphs stay as they are", () => {
  const text = `/**\n * Short\n * lines.\n *\n *   R1. ${WORDS}\n *   R2. Short.\n *\n * @throws {Error} ${WORDS}\n */\n`;
  const lines = fixed(text).split("\n");
  expect(lines.slice(1, 4)).toEqual([" * Short", " * lines.", " *"]);
  expect(lines[5]).toMatch(/^ \* {7}\S/);
  expect(lines.find((line) => line.includes("R2."))).toBe(" *   R2. Short.");
  expect(lines[lines.findIndex((line) => line.includes("@throws")) + 1]).toMatch(/^ \* {3}\S/);
});

test("a comment behind code goes above it; tools' comments and what is drawn stay", () => {
  expect(fixed(`  call(); // ${WORDS}\n`)).toMatch(/^ {2}\/\/ .*\n {2}\/\/ .*\n {2}call\(\);\n$/);
  for (const text of [`// @ts-expect-error ${WORDS}\n`, `/**\n * a    ${WORDS}    b   c\n */\n`])
    expect(fixed(text)).toBe(text);
});
