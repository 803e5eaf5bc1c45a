import { expect, test } from "vitest";
import { renderTable } from "./table.ts";

test("columns are as wide as their widest cell, and numbers are set to the right", () => {
  const table = renderTable(
    ["model", "l(1)"],
    [
      ["mlp", "0.1 ms"],
      ["ocr-rec@W=160", "12 ms"],
    ],
  );
  expect(table).toBe(["model            l(1)", "mlp            0.1 ms", "ocr-rec@W=160   12 ms"].join("\n"));
});

test("a table without rows is nothing at all", () => {
  expect(renderTable(["a"], [])).toBe("");
});

test("a cell is one line that does nothing to a terminal, and as wide as it is shown", () => {
  expect(renderTable(["id", "x"], [["a\u001b[31m\nb", "y"]])).toBe(`id${" ".repeat(14)}x\na\\u001b[31m\\nb  y`);
});
