/** Reads a document that a person wrote, field by field. Every mistake is noted by its path, and reading goes on. */
import { NAME_LENGTH_MAX, TuttiError } from "@tutti/protocol";

/** Most problems that are reported at once. */
const PROBLEMS_MAX = 10;

export class Problems {
  readonly #lines: string[] = [];
  add(path: string, text: string): void {
    if (this.#lines.length < PROBLEMS_MAX) this.#lines.push(`${path === "" ? "the document" : path}: ${text}`);
  }
  throwIfAny(): void {
    if (this.#lines.length > 0) throw new TuttiError("TUTTI_INVALID_INPUT", this.#lines.join("\n"));
  }
}

export interface Range {
  readonly above?: number;
  readonly least?: number;
  readonly below?: number;
  readonly most?: number;
  readonly whole?: boolean;
}

/**
 * A mapping of the document and its path. Reading an absent field notes a problem and goes on with a value that causes
 * no second one.
 */
export class Section {
  readonly #path: string;
  readonly #problems: Problems;
  readonly #fields: Readonly<Record<string, unknown>>;

  constructor(value: unknown, path: string, problems: Problems) {
    this.#path = path;
    this.#problems = problems;
    const isMapping = typeof value === "object" && value !== null && !Array.isArray(value);
    if (!isMapping) problems.add(path, "is a mapping of names to values");
    this.#fields = isMapping ? (value as Record<string, unknown>) : {};
  }

  problem(field: string, text: string): void {
    this.#problems.add(this.#path === "" ? field : `${this.#path}.${field}`, text);
  }
  value(field: string): unknown {
    return Object.hasOwn(this.#fields, field) ? (this.#fields[field] ?? undefined) : undefined;
  }
  only(known: readonly string[]): this {
    for (const field of Object.keys(this.#fields)) {
      if (!known.includes(field)) this.problem(field, `is unknown here; known are ${known.join(", ")}`);
    }
    return this;
  }
  text(field: string): string {
    const value = this.value(field);
    if (typeof value === "string" && value !== "" && value.length <= NAME_LENGTH_MAX) return value;
    this.problem(field, value === undefined ? "is missing" : `is a text of 1 to ${NAME_LENGTH_MAX} characters`);
    return "";
  }
  number(field: string, range: Range & { readonly otherwise?: number }): number {
    const value = this.value(field);
    if (value === undefined && range.otherwise !== undefined) return range.otherwise;
    return this.#checked(field, value, range);
  }
  /** A mapping within this one. */
  section(field: string): Section {
    return new Section(this.value(field), this.#path === "" ? field : `${this.#path}.${field}`, this.#problems);
  }
  numbers(field: string, range: Range, lengthMax: number): number[] {
    const value = this.value(field);
    if (Array.isArray(value) && value.length >= 1 && value.length <= lengthMax) {
      return value.map((item, i) => this.#checked(`${field}[${i}]`, item, range));
    }
    this.problem(field, `is a list of 1 to ${lengthMax} numbers`);
    return [1];
  }
  list(field: string, lengthMax: number): Section[] {
    const value = this.value(field);
    if (Array.isArray(value) && value.length >= 1 && value.length <= lengthMax) {
      const path = this.#path === "" ? field : `${this.#path}.${field}`;
      return value.map((item, i) => new Section(item, `${path}[${i}]`, this.#problems));
    }
    this.problem(field, value === undefined ? "is missing" : `is a list of 1 to ${lengthMax} entries`);
    return [];
  }

  #checked(field: string, value: unknown, range: Range): number {
    const { above = -Infinity, least = -Infinity, below = Infinity, most = Infinity, whole = false } = range;
    if (value === undefined) this.problem(field, "is missing");
    else if (typeof value !== "number" || !Number.isFinite(value)) {
      this.problem(field, `${JSON.stringify(value)} is no number`);
    } else if (
      value <= above ||
      value < least ||
      value >= below ||
      value > most ||
      (whole && !Number.isInteger(value))
    ) {
      this.problem(field, `is ${value}, but should be ${describe(range)}`);
    } else return value;
    return Math.max(1, least === -Infinity ? 1 : least);
  }
}

function describe({ above, least, below, most, whole }: Range): string {
  const bounds = [
    above === undefined ? "" : `above ${above}`,
    least === undefined ? "" : `at least ${least}`,
    below === undefined ? "" : `below ${below}`,
    most === undefined ? "" : `at most ${most}`,
  ];
  return `${whole === true ? "a whole number " : ""}${bounds.filter((bound) => bound !== "").join(" and ")}`;
}
