/** YAML with the positions of its values, so that an error can point at the line to change. */
import {
  type Document,
  LineCounter,
  type Node,
  type ParsedNode,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  parseDocument,
} from "yaml";
import { CommandError } from "@tutti/admin";

/** `["models", 0, "sloMs"]`. */
export type YamlPath = readonly (string | number)[];

export interface Problem {
  readonly path: YamlPath;
  /** Points at the key instead of at its value: for invalid keys. */
  readonly at?: "key";
  readonly text: string;
}

/** Maximum number of problems shown: the others are probably caused by the first ones. */
const PROBLEMS_SHOWN_MAX = 10;

export class LocatedYaml {
  readonly origin: string;
  readonly value: unknown;
  readonly #document: Document.Parsed;
  readonly #lines = new LineCounter();

  /** @throws {CommandError} naming file, line and column if the text is no YAML */
  constructor(text: string, origin: string) {
    this.origin = origin;
    this.#document = parseDocument(text, { lineCounter: this.#lines, prettyErrors: false, logLevel: "error" });
    const problems = this.#document.errors.map(({ pos, code, message }) => {
      const text = code === "MULTIPLE_DOCS" ? "a second document begins here; keep one in a file" : message;
      return `${this.#place(pos[0])}: ${text}`;
    });
    if (problems.length > 0) throw new CommandError(problems.slice(0, PROBLEMS_SHOWN_MAX).join("\n"));
    try {
      this.value = this.#document.toJS();
    } catch (error) {
      throw new CommandError(`${origin}: ${(error as Error).message}`, undefined, error); // an alias bomb
    }
  }

  /** `tutti.yaml:12:5`, of a value or of its key. */
  placeOf(problem: Omit<Problem, "text">): string {
    return this.#place(this.#offsetOf(problem));
  }

  /** `scenario.yaml:12:5: models[0].sloMs: …`, a line for each problem, in the order of the file. */
  failure(problems: readonly Problem[]): CommandError {
    const located = problems.map((problem) => ({ ...problem, offset: this.#offsetOf(problem) }));
    located.sort((a, b) => a.offset - b.offset);
    const lines = located.map(({ path, text, offset }) => {
      const name = formatPath(path);
      return `${this.#place(offset)}: ${name === "" ? "" : `${name}: `}${text}`;
    });
    const shown = [...new Set(lines)];
    const more = shown.length - PROBLEMS_SHOWN_MAX;
    if (more > 0) shown.splice(PROBLEMS_SHOWN_MAX, more, `and ${more} more`);
    return new CommandError(shown.join("\n"));
  }

  #place(offset: number): string {
    const { line, col } = this.#lines.linePos(offset);
    return `${this.origin}:${line}:${col}`;
  }

  /** The position of a path, or of its deepest existing part: a missing key is reported at its map. */
  #offsetOf({ path, at }: Omit<Problem, "text">): number {
    let node: Node | null = this.#document.contents;
    let offset = rangeStart(node);
    for (const [depth, step] of path.entries()) {
      if (isAlias(node)) node = node.resolve(this.#document) ?? null;
      if (isMap(node)) {
        const pair = node.items.find(({ key }) => isScalar(key) && String(key.value) === String(step));
        if (pair === undefined) return offset;
        offset = rangeStart(pair.key as ParsedNode);
        node = pair.value as ParsedNode | null;
        const last = depth === path.length - 1;
        if (node === null || (last && at === "key")) return offset;
      } else if (isSeq(node)) {
        node = (node.items[Number(step)] as ParsedNode | undefined) ?? null;
        if (node === null) return offset;
      } else return offset;
      offset = rangeStart(node);
    }
    return offset;
  }
}

const rangeStart = (node: Node | null): number => node?.range?.[0] ?? 0;

/** `models[0].sloMs`. */
export function formatPath(path: YamlPath): string {
  return path.map((step, i) => (typeof step === "number" ? `[${step}]` : i === 0 ? step : `.${step}`)).join("");
}
