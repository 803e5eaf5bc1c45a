/**
 * An option of `tutti up` or of a role, declared once. From it follow its flag, its key in tutti.yaml, its environment
 * variable, the line of `--help` and the row of the reference.
 */
export interface OptionSpec {
  /** Name of the flag without its dashes, and the key in tutti.yaml. */
  readonly name: string;
  /** `f` of `-f`. */
  readonly short?: string;
  /**
   * Stands for the value in `--help` and says what it is: `<n>`, `<port>` and `<0..1>` are numbers, `<a|b>` is a
   * choice, `<file>` and `<folder>` are paths. Undefined: a switch, true or false.
   */
  readonly value: string | undefined;
  /** `--name` alone means true. */
  readonly isValueOptional?: true;
  readonly text: string;
  /** The value in force where nothing says otherwise, as a flag gives it. */
  readonly default?: string;
  /** Says how it is without a value, where no single value means the same. */
  readonly otherwise?: string;
  /** Why no environment variable sets it. */
  readonly noVariable?: string;
}

/** The kind of an option's values. */
export type OptionKind =
  | { readonly kind: "switch" | "count" | "port" | "number" | "path" | "path-or-url" | "text" | "list" }
  | { readonly kind: "choice"; readonly choices: readonly string[] };

export function kindOf({ value }: Pick<OptionSpec, "value">): OptionKind {
  if (value === undefined) return { kind: "switch" };
  if (value === "n") return { kind: "count" };
  if (value === "port") return { kind: "port" };
  if (value === "0..1" || value === "percent") return { kind: "number" };
  if (/^(file|folder)-or-url$/.test(value)) return { kind: "path-or-url" };
  if (isPath(value)) return { kind: "path" };
  // "timeout:5ms" stands for values of its form, so the list is not complete.
  if (value.includes("|"))
    return value.includes(":") ? { kind: "text" } : { kind: "choice", choices: choicesIn(value) };
  return { kind: /^(names|urls)$|,/.test(value) ? "list" : "text" };
}

const isPath = (placeholder: string): boolean => /file|folder|path|\.(yaml|jsonl?|html)\b/.test(placeholder);

/** The choices of `<a|b>`. */
export const choicesIn = (placeholder: string): string[] => placeholder.split("|");

/** `TUTTI_HTTP_PORT` of `http-port`; undefined where no variable sets the option. */
export const variableOf = ({ name, noVariable }: Pick<OptionSpec, "name" | "noVariable">): string | undefined =>
  noVariable === undefined ? `TUTTI_${name.toUpperCase().replaceAll("-", "_")}` : undefined;

/** A switch that is on by default is shown as the flag that turns it off. */
const isOnByDefault = (spec: OptionSpec): boolean => spec.value === undefined && spec.default === "true";

/** `--port <port>`, as `--help` shows it. */
export function flagOf(spec: OptionSpec): string {
  if (spec.value === undefined) return `--${isOnByDefault(spec) ? "no-" : ""}${spec.name}`;
  const flag = spec.short === undefined ? `--${spec.name}` : `-${spec.short}, --${spec.name}`;
  return spec.isValueOptional === true ? `${flag} [${spec.value}]` : `${flag} <${spec.value}>`;
}

/** The flag that says the opposite of `flagOf`, which `--help` leaves out. */
export const oppositeOf = (spec: OptionSpec): string => `--${isOnByDefault(spec) ? "" : "no-"}${spec.name}`;

/** The text with the default behind it. */
export function describe(spec: OptionSpec): string {
  if (isOnByDefault(spec)) return `don't ${spec.text}`;
  const usual = spec.otherwise ?? spec.default;
  return [spec.text, ...(usual === undefined ? [] : [`(default: ${usual})`])].filter((part) => part !== "").join(" ");
}

/** Lines for options, in two columns. */
export function optionLines(specs: readonly OptionSpec[], indent = "  "): string {
  const width = Math.max(...specs.map((spec) => flagOf(spec).length));
  return specs.map((spec) => `${indent}${flagOf(spec).padEnd(width)}  ${describe(spec)}`).join("\n");
}
