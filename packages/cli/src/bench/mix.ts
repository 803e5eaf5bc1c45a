/** The mix of a load: models, applications and weights, from `--mix` (text or a YAML file) or from a trace. */
import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { NAME_RULE, SLO_US_MAX, isModelName, isName } from "@tutti/protocol";
import type { TraceEntry } from "@tutti/simulator";
import { type Micros, parseDuration } from "@tutti/units";
import { CommandError, usageError } from "@tutti/admin";
import { LocatedYaml, type Problem, type YamlPath } from "@tutti/sim-report/scenarios";

/** One kind of request, as it is written. */
export interface MixEntry {
  readonly model: string;
  readonly app: string;
  readonly weight: number;
  /** Undefined: the model's own SLO. */
  readonly slo: Micros | undefined;
  /** A file with the input; undefined: random numbers. */
  readonly input: string | undefined;
}

/** Bounds the entries: each has histograms, an inbox and a body of its own. */
const ENTRIES_MAX = 1_024;
const KEYS = ["model", "app", "weight", "slo", "input"];
const GRAMMAR = "write model.app:weight,…, such as ocr-rec.web:3,mlp.batch:1, or the name of a .yaml file";

/** @param app - for entries that name none */
export async function readMix(text: string, app: string): Promise<MixEntry[]> {
  const entries = /\.ya?ml$/.test(text) ? await mixFile(text, app) : text.split(",").map((part) => inline(part, app));
  if (entries.length > ENTRIES_MAX) throw usageError(`--mix: ${entries.length} entries, at most ${ENTRIES_MAX}`);
  const names = entries.map((entry) => `${entry.model}.${entry.app}`);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) throw usageError(`--mix names ${twice} twice: add up its weights`);
  return entries;
}

function inline(part: string, app: string): MixEntry {
  const [, model = "", named = app, weight = "1"] = /^([^.:]+)(?:\.([^.:]+))?(?::([\d.]+))?$/.exec(part.trim()) ?? [];
  if (!isModelName(model) || !isName(named) || !(Number(weight) > 0)) throw usageError(`--mix ${part}: ${GRAMMAR}`);
  return { model, app: named, weight: Number(weight), slo: undefined, input: undefined };
}

async function mixFile(path: string, app: string): Promise<MixEntry[]> {
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(`--mix ${path} can't be read: ${error.code}`);
  });
  return mixOf(new LocatedYaml(text, path), { app, folder: dirname(path) });
}

/**
 * Reads `streams:`: each has a model, and optionally app, weight, slo and input (a file beside it).
 * @throws {CommandError} by line
 */
export function mixOf(
  yaml: LocatedYaml,
  { app, folder }: { readonly app: string; readonly folder: string },
): MixEntry[] {
  const { value } = yaml;
  const streams = typeof value === "object" && value !== null && "streams" in value ? value.streams : undefined;
  if (!Array.isArray(streams) || streams.length === 0)
    throw yaml.failure([{ path: [], text: "a mix has a list of `streams:`, each with a model" }]);
  const problems: Problem[] = [];
  const entries = (streams as readonly unknown[]).map((stream, i): MixEntry => {
    const reading = new EntryReading(stream, ["streams", i], problems);
    const file = reading.text("input");
    return {
      model: reading.name("model", isModelName) ?? "",
      app: reading.has("app") ? (reading.name("app") ?? "") : app,
      weight: reading.weight(),
      slo: reading.slo(),
      input: file === undefined ? undefined : resolve(folder, file),
    };
  });
  if (problems.length > 0) throw yaml.failure(problems);
  return entries;
}

class EntryReading {
  readonly #entry: Readonly<Record<string, unknown>>;
  readonly #path: YamlPath;
  readonly #problems: Problem[];

  constructor(entry: unknown, path: YamlPath, problems: Problem[]) {
    this.#path = path;
    this.#problems = problems;
    const isMap = typeof entry === "object" && entry !== null && !Array.isArray(entry);
    if (!isMap) problems.push({ path, text: "a map with a model" });
    this.#entry = isMap ? (entry as Record<string, unknown>) : {};
    for (const key of Object.keys(this.#entry))
      if (!KEYS.includes(key))
        problems.push({ path: [...path, key], at: "key", text: `no key of a stream, which has ${KEYS.join(", ")}` });
  }

  has(key: string): boolean {
    return this.#entry[key] !== undefined;
  }
  text(key: string): string | undefined {
    const value = this.#entry[key];
    if (value === undefined || (typeof value === "string" && value !== "")) return value;
    return this.#complain(key, "text");
  }
  name(key: string, isOne = isName): string | undefined {
    const value = this.#entry[key];
    if (typeof value === "string" && isOne(value)) return value;
    return this.#complain(key, `a name: ${NAME_RULE}`);
  }
  weight(): number {
    const value = this.#entry["weight"] ?? 1;
    if (typeof value === "number" && value > 0 && value < 1e9) return value;
    return this.#complain("weight", "a number above 0") ?? 1;
  }
  slo(): Micros | undefined {
    const value = this.#entry["slo"];
    if (value === undefined) return undefined;
    const slo = typeof value === "number" || typeof value === "string" ? parseDuration(String(value)) : undefined;
    if (slo !== undefined && slo > 0 && slo <= SLO_US_MAX) return slo;
    return this.#complain("slo", "a length of time up to 10 min (SLO_US_MAX), such as 25ms");
  }
  #complain(key: string, wanted: string): undefined {
    this.#problems.push({ path: [...this.#path, key], text: `${wanted}, not ${JSON.stringify(this.#entry[key])}` });
    return undefined;
  }
}

/** Turns a trace into a mix. Each pair of model and application is a stream, weighted by its number of requests. */
export function mixOfTrace(entries: readonly TraceEntry[], app: string): { mix: MixEntry[]; entries: TraceEntry[] } {
  const named = entries.map((entry) => (entry.app === "" ? { ...entry, app } : entry));
  const counts = new Map<string, { entry: TraceEntry; count: number }>();
  for (const entry of named) {
    const key = `${entry.model}.${entry.app}`;
    const known = counts.get(key);
    if (known !== undefined) known.count++;
    else if (counts.size < ENTRIES_MAX) counts.set(key, { entry, count: 1 });
    else throw new CommandError(`the trace asks for over ${ENTRIES_MAX} pairs of model and application`);
  }
  const mix = [...counts.values()].map(({ entry: { model, app: of }, count }): MixEntry => {
    if (!isModelName(model) || !isName(of))
      throw new CommandError(`the trace asks for "${model}" in the name of "${of}"`);
    return { model, app: of, weight: count, slo: undefined, input: undefined };
  });
  return { mix, entries: named };
}
