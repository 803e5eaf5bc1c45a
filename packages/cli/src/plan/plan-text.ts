/** Formats of numbers and lists in the texts of `tutti plan`. */

/** Formats a number with three significant digits, which are enough for planning: 12,345; 123; 12.3; 0.123. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return "∞";
  const size = Math.abs(value);
  const digits = size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return value.toLocaleString("en-US", { maximumFractionDigits: digits });
}

/** Formats a share, `85 %`; a share below 1 is never shown as 100 %. */
export function share(value: number): string {
  const percent = 100 * value;
  if (value < 1 && percent > 99.95) return "99.9 %";
  return `${percent.toLocaleString("en-US", { maximumFractionDigits: percent >= 10 || Number.isInteger(percent) ? 0 : 1 })} %`;
}

export const plural = (count: number, one: string, many = `${one}s`): string =>
  `${count.toLocaleString("en-US")} ${count === 1 ? one : many}`;

/** Joins names, `A, B and C`; a long list is cut. */
export function listed(names: readonly string[], most = 6): string {
  const cut = names.length > most ? [...names.slice(0, most - 1), `${names.length - most + 1} more`] : [...names];
  const last = cut.pop() ?? "none";
  return cut.length === 0 ? last : `${cut.join(", ")} and ${last}`;
}

const BAR = 10;
/** A share from 0 to 1 as a bar of fixed width. */
export const bar = (value: number): string => {
  const full = Math.max(0, Math.min(BAR, Math.round(value * BAR)));
  return "█".repeat(full) + "·".repeat(BAR - full);
};

/** Maximum number of rows on a terminal; `--json` has all. */
export const ROWS_SHOWN_MAX = 100;

export function cutRows(rows: readonly string[][]): { readonly rows: readonly string[][]; readonly more: string[] } {
  const left = rows.length - ROWS_SHOWN_MAX;
  return left <= 0
    ? { rows, more: [] }
    : { rows: rows.slice(0, ROWS_SHOWN_MAX), more: [`and ${plural(left, "row")} more: --json has them`] };
}
