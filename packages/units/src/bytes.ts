const UNITS = ["B", "kB", "MB", "GB", "TB"] as const;

/** `1.5 GB`: three digits, powers of a thousand. */
export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (Number(value.toPrecision(3)) >= 1_000 && unit < UNITS.length - 1) {
    value /= 1_000;
    unit++;
  }
  return `${Number(value.toPrecision(3))} ${UNITS[unit]}`;
}

const FACTORS: ReadonlyMap<string, number> = new Map(
  Object.entries({
    ...{ "": 1, b: 1, kb: 1e3, mb: 1e6, gb: 1e9, tb: 1e12 },
    ...{ kib: 2 ** 10, mib: 2 ** 20, gib: 2 ** 30, tib: 2 ** 40 },
  }),
);

/** `4GB`, `1.5 GiB`, or a bare number of bytes. Undefined: it is no size. */
export function parseBytes(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*([a-z]*)$/i.exec(text.trim());
  const factor = FACTORS.get(match?.[2]?.toLowerCase() ?? "");
  if (match === null || factor === undefined) return undefined;
  const bytes = Math.round(Number(match[1]) * factor);
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}
