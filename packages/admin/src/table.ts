import { printable } from "@tutti/units";

/**
 * Columns padded to their widest cell; numbers are set to the right. Empty without rows. Cells may come from outside:
 * what would move a terminal's cursor is shown instead.
 */
export function renderTable(headings: readonly string[], cells: readonly (readonly string[])[]): string {
  if (cells.length === 0) return "";
  const rows = cells.map((row) => row.map(printable));
  const widths = headings.map((heading, column) =>
    Math.max(heading.length, ...rows.map((row) => (row[column] ?? "").length)),
  );
  const right = headings.map((_, column) => rows.every((row) => isNumeric(row[column] ?? "")));
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, column) => (right[column] ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0)))
      .join("  ")
      .trimEnd();
  return [line(headings), ...rows.map(line)].join("\n");
}

const isNumeric = (cell: string): boolean => cell === "" || cell === "-" || /^[\d.,]+( (%|ms|s|µs))?$/.test(cell);
