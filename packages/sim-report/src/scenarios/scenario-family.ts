/**
 * Families of scenarios in one file: `vary` declares axes, and `$name` stands for the chosen value on the axis.
 *
 *     vary:
 *       sloMs: [20, 25, 50]                                 # $sloMs
 *       beta: { low: { betaMs: 1 }, high: { betaMs: 15 } }  # $beta is the label, $beta.betaMs what goes with it
 */
import { CommandError } from "@tutti/admin";
import type { Problem, YamlPath } from "./located-yaml.ts";

/** The choice on each axis, as text: the value itself, or its label. */
export type Choice = Readonly<Record<string, string>>;

export interface Axis {
  readonly name: string;
  /** The possible choices, in the order of the file. */
  readonly labels: readonly string[];
  /** The values of `$name` and `$name.key` for a label. */
  readonly valuesOf: (label: string) => ReadonlyMap<string, unknown>;
}

/** The axes of a `vary` section after the schema check; none without a section. */
export function axesOf(vary: unknown): readonly Axis[] {
  if (typeof vary !== "object" || vary === null || Array.isArray(vary)) return [];
  return Object.entries(vary as Readonly<Record<string, unknown>>).map(([name, axis]) =>
    Array.isArray(axis) ? listAxis(name, axis) : labelledAxis(name, (axis ?? {}) as Readonly<Record<string, unknown>>),
  );
}

function listAxis(name: string, values: readonly unknown[]): Axis {
  const byLabel = new Map(values.map((value) => [String(value), value]));
  return { name, labels: [...byLabel.keys()], valuesOf: (label) => new Map([[name, byLabel.get(label)]]) };
}

function labelledAxis(name: string, byLabel: Readonly<Record<string, unknown>>): Axis {
  const valuesOf = (label: string) => {
    const values = Object.entries((byLabel[label] ?? {}) as Readonly<Record<string, unknown>>);
    return new Map<string, unknown>([
      [name, label],
      ...values.map(([key, value]) => [`${name}.${key}`, value] as const),
    ]);
  };
  return { name, labels: Object.keys(byLabel), valuesOf };
}

/**
 * The values of every `$name`.
 *
 * @throws {CommandError} an axis has no choice, or the choice names an unknown axis or label
 */
export function resolveChoice(axes: readonly Axis[], choice: Choice, origin: string): ReadonlyMap<string, unknown> {
  const names = axes.map(({ name }) => name);
  for (const name of Object.keys(choice)) {
    if (names.includes(name)) continue;
    const known = names.length === 0 ? "it has no `vary` section" : `it has ${names.join(", ")}`;
    throw new CommandError(`${origin}: no axis "${name}" can be set; ${known}`);
  }
  const variables = new Map<string, unknown>();
  for (const { name, labels, valuesOf } of axes) {
    const label = choice[name];
    if (label !== undefined && labels.includes(label)) {
      for (const [variable, value] of valuesOf(label)) variables.set(variable, value);
      continue;
    }
    const problem =
      label === undefined ? "choose one scenario of this family" : `"${label}" is not on the axis ${name}`;
    const axesText = axes.map((axis) => `--set ${axis.name}=${axis.labels.join("|")}`).join(" ");
    throw new CommandError(`${origin}: ${problem}: ${axesText}`);
  }
  return variables;
}

const PLACEHOLDER = /^\$([A-Za-z_][\w.-]*)$/;

/** Copies `value` with its placeholders filled in; unknown ones are reported and left as they are. */
export function fillIn(
  value: unknown,
  variables: ReadonlyMap<string, unknown>,
  problems: Problem[],
  path: YamlPath = [],
): unknown {
  if (typeof value === "string") {
    const name = PLACEHOLDER.exec(value)?.[1];
    if (name === undefined) return value;
    if (variables.has(name)) return variables.get(name);
    const known = [...variables.keys()].map((variable) => `$${variable}`).join(", ");
    problems.push({
      path,
      text: `nothing is called ${value}; ${known === "" ? "declare it in `vary`" : `known: ${known}`}`,
    });
    return value;
  }
  if (Array.isArray(value)) return value.map((item, i) => fillIn(item, variables, problems, [...path, i]));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [
      key,
      key === "vary" && path.length === 0 ? (item as unknown) : fillIn(item, variables, problems, [...path, key]),
    ]),
  );
}

/** Every member of the family, the last axis changing fastest; without axes, one empty choice. */
export function* choicesOf(axes: readonly Axis[]): Generator<Choice> {
  const [axis, ...rest] = axes;
  if (axis === undefined) return yield {};
  for (const label of axis.labels) {
    for (const choice of choicesOf(rest)) yield { [axis.name]: label, ...choice };
  }
}
