/**
 * Reads protobuf's text format (`config.pbtxt`) without a schema, so that keys which mean nothing here are read too. A
 * field that occurs several times becomes a list. Pure.
 */
type Value = string | number | boolean | Message | readonly Value[];
export interface Message {
  readonly [field: string]: Value;
}

/** Messages within messages; Triton's are four deep. */
const DEPTH_MAX = 32;
const SPACE = /(?:\s|#[^\n]*)*/y;
const TOKEN = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[-+]?[\w.]+(?:(?<=[eE])[-+]\d+)?|[{}<>[\]:,;]/y;

/** @throws {SyntaxError} naming the line */
export function parseTextFormat(text: string): Message {
  return new Reader(text).message(undefined, 0);
}

class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** @param end - the bracket that closes it; undefined: the end of the text */
  message(end: string | undefined, depth: number): Message {
    if (depth > DEPTH_MAX) throw this.#fault("messages are too deep within each other");
    const fields = new Map<string, Value>();
    for (let token = this.#next(); token !== end; token = this.#next()) {
      if (token === undefined || !/^[A-Za-z_]\w*$/.test(token)) throw this.#fault("the name of a field is expected");
      const isNamed = this.#skip(":");
      const value = this.#value(this.#next(), depth, isNamed);
      const before = fields.get(token);
      fields.set(token, before === undefined ? value : [before, value].flat());
      if (!this.#skip(",")) this.#skip(";");
    }
    return Object.fromEntries(fields);
  }

  #value(token: string | undefined, depth: number, isScalar: boolean): Value {
    if (token === "{" || token === "<") return this.message(token === "{" ? "}" : ">", depth + 1);
    if (token === "[") return this.#list(depth, isScalar);
    if (!isScalar || token === undefined || /^[}>\]:,;]$/.test(token)) throw this.#fault("a value is expected");
    if (/^["']/.test(token)) return this.#string(token);
    if (token === "true" || token === "false") return token === "true";
    const number = /^[-+]?[\d.]/.test(token)
      ? Number(/^[-+]?0x/i.test(token) ? token : token.replace(/(?<=[\d.])f$/i, ""))
      : NaN;
    if (!Number.isNaN(number)) return number;
    if (/^[A-Za-z_]\w*$/.test(token)) return token;
    throw this.#fault(`'${token.slice(0, 40)}' is no value`);
  }

  #list(depth: number, isScalar: boolean): Value[] {
    if (depth > DEPTH_MAX) throw this.#fault("lists are too deep within each other");
    const values: Value[] = [];
    if (this.#skip("]")) return values;
    do values.push(this.#value(this.#next(), depth + 1, isScalar));
    while (this.#skip(","));
    if (!this.#skip("]")) throw this.#fault("a list ends with ]");
    return values;
  }

  /** Strings that follow each other are one. */
  #string(token: string): string {
    const own = token
      .slice(1, -1)
      .replaceAll(/\\([0-7]{1,3}|x[\da-fA-F]{1,2}|.)/g, (_, escape: string) => unescaped(escape));
    const at = this.#at;
    const next = this.#next();
    if (next !== undefined && /^["']/.test(next)) return own + this.#string(next);
    this.#at = at;
    return own;
  }

  #skip(wanted: string): boolean {
    const at = this.#at;
    if (this.#next() === wanted) return true;
    this.#at = at;
    return false;
  }

  /** @returns undefined: the end */
  #next(): string | undefined {
    SPACE.lastIndex = this.#at;
    SPACE.test(this.#text);
    const from = SPACE.lastIndex;
    this.#at = from;
    if (from === this.#text.length) return undefined;
    TOKEN.lastIndex = from;
    const [token] = TOKEN.exec(this.#text) ?? [];
    if (token === undefined)
      throw this.#fault(`'${this.#text.slice(from, from + 20).split("\n", 1)[0]}' can't be read`);
    this.#at = TOKEN.lastIndex;
    return token;
  }

  #fault(text: string): SyntaxError {
    return new SyntaxError(`line ${this.#text.slice(0, this.#at).split("\n").length}: ${text}`);
  }
}

const ESCAPES: ReadonlyMap<string, string> = new Map([
  ...([
    ["n", "\n"],
    ["r", "\r"],
    ["t", "\t"],
    ["a", "\x07"],
    ["b", "\b"],
    ["f", "\f"],
    ["v", "\v"],
  ] as const),
]);

function unescaped(escape: string): string {
  if (/^[0-7]/.test(escape)) return String.fromCharCode(parseInt(escape, 8));
  if (/^x./.test(escape)) return String.fromCharCode(parseInt(escape.slice(1), 16));
  return ESCAPES.get(escape) ?? escape;
}
