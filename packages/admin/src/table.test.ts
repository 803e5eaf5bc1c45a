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
