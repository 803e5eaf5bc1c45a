import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { explanation } from "../page/explain.ts";

test("every code of an error is explained, in words of its own", () => {
  const table = readFileSync(join(import.meta.dirname, "../../../docs/messages.md"), "utf8");
  const codes = [...new Set(table.match(/(?<=^\| `)TUTTI_\w+/gm))];
  expect(codes.length).toBeGreaterThan(8);
  for (const code of codes) expect(explanation(code).means, code).not.toBe(explanation("none").means);
});
