/** Which comments the lint rule on their first word reports. */
import { Linter } from "eslint";
import { expect, test } from "vitest";
import { commentOpener } from "../../infra/lint/comment-opener.mjs";

function openers(text: string): string[] {
  const rules = { "comment-opener": commentOpener };
  const config = { plugins: { prose: { rules } }, rules: { "prose/comment-opener": "error" } } as const;
  return new Linter().verify(text, [config]).map(({ line, message }) => `${line}: ${/"(.*)"/.exec(message)?.[1]}`);
}

test("a comment that opens with a clause instead of a noun is reported, in each form of a comment", () => {
  const [block, line] = ["/** Of a thread. */\n", "const a = 1; /".concat("/ What it holds\n")];
  expect(openers(`${block}${line}/**\n * By whom it is read.\n */\n`)).toEqual(["1: Of", "2: What", "3: By whom"]);
});

test("questions, other words, later lines of a comment and code are not", () => {
  const text = [
    "// What is it for?",
    "/** Offers of a thread: that is all. */",
    "// It goes on with",
    "// what it began.",
    "const That = 1;",
  ];
  expect(openers(text.join("\n"))).toEqual([]);
});
