/** Reads Prometheus' text format, strictly: unknown syntax is an error. */
export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const LINE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (-?[0-9.e+-]+|NaN|[+-]Inf)$/;
const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)",?/gy;

export function samplesOf(text: string): Sample[] {
  const typed = new Set<string>();
  const seen = new Set<string>();
  const samples: Sample[] = [];
  for (const line of text.split("\n")) {
    if (line === "" || line.startsWith("# HELP ")) continue;
    const type = /^# TYPE (\S+) (counter|gauge|histogram)$/.exec(line)?.[1];
    if (type !== undefined) {
      typed.add(type);
      continue;
    }
    const [, name = "", labelText = "", value = ""] = LINE.exec(line) ?? fail(line);
    const labels = Object.fromEntries([...labelText.matchAll(LABEL)].map(([, key = "", text = ""]) => [key, text]));
    const written = Object.entries(labels).map(([key, text]) => `${key}="${text}"`);
    if (written.join(",") !== labelText) fail(line);
    if (!typed.has(name) && !typed.has(name.replace(/_(bucket|sum|count)$/, ""))) fail(`${line}: no TYPE`);
    const series = `${name}{${written.sort().join()}}`;
    if (seen.has(series)) fail(`${line}: twice`);
    seen.add(series);
    samples.push({ name, labels, value: Number(value.replace("Inf", "Infinity")) });
  }
  return samples;
}

/** Value of the sample with all of these labels. */
export const valueOf = (
  samples: readonly Sample[],
  name: string,
  labels: Readonly<Record<string, string>>,
): number | undefined =>
  samples.find((one) => one.name === name && Object.entries(labels).every(([key, text]) => one.labels[key] === text))
    ?.value;

function fail(line: string): never {
  throw new Error(`no exposition format: ${line}`);
}
