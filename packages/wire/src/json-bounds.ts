/**
 * Checks JSON from outside before it is parsed. V8 takes 100 to 200 ns for each list and object, so that a few
 * megabytes of `[],[],` take half a second.
 */
import { TuttiError } from "@tutti/protocol";

/** A tensor nests as deep as it has axes; a request adds four. */
const JSON_DEPTH_MAX = 32;
/**
 * Most lists and objects together. A nested tensor has one for each of its innermost rows, an image of 640 × 640 pixels
 * 410,000.
 */
export const JSON_LISTS_MAX = 524_288;
/** Most keys: 64 tensors with 64 parameters each have 4,500. */
export const JSON_KEYS_MAX = 16_384;

const [OTHER, QUOTE, OPEN, CLOSE, COLON] = [0, 1, 2, 3, 4];
const KINDS = new Uint8Array(256).fill(OTHER);
const COUNTED = ['"', "[", "{", "]", "}", ":"];
for (const [text, kind] of [
  ['"', QUOTE],
  ["[{", OPEN],
  ["]}", CLOSE],
  [":", COLON],
] as const)
  for (const character of text) KINDS[character.charCodeAt(0)] = kind;
const BACKSLASH = 0x5c;
/**
 * After so many characters that don't count, the next that does is looked for natively, which takes next to no time a
 * character and as long as these at the start. Most of a tensor is such a run: its numbers.
 */
const PLAIN_RUN = 256;

/**
 * Checks the bounds, at 1 to 3 ns a character, and 12 where each looks like one that counts to a search by bytes.
 * @throws {TuttiError} INVALID_INPUT naming the bound; invalid JSON is left for the parser to refuse
 */
export function checkJsonBounds(json: string): void {
  let [depth, lists, keys, plain] = [0, 0, 0, 0];
  const next = new NextCounted(json);
  for (let at = 0; at < json.length; at++) {
    const kind = KINDS[json.charCodeAt(at)] ?? OTHER;
    if (kind === OTHER) {
      if (++plain > PLAIN_RUN) at = next.from(at) - 1;
      continue;
    }
    plain = 0;
    switch (kind) {
      case QUOTE:
        at = endOfString(json, at);
        break;
      case OPEN:
        if (++depth > JSON_DEPTH_MAX) throw beyond(`is nested more than ${JSON_DEPTH_MAX} deep`);
        if (++lists > JSON_LISTS_MAX)
          throw beyond(
            `has more than ${JSON_LISTS_MAX} lists and objects: send data as one flat list (JSON_LISTS_MAX)`,
          );
        break;
      case CLOSE:
        depth--;
        break;
      case COLON:
        if (++keys > JSON_KEYS_MAX) throw beyond(`has more than ${JSON_KEYS_MAX} keys (JSON_KEYS_MAX)`);
    }
  }
}

/** Finds the next character that counts; each kind is looked for again only when its last finding is passed. */
class NextCounted {
  readonly #json: string;
  readonly #found: number[] = COUNTED.map(() => -1);

  constructor(json: string) {
    this.#json = json;
  }

  from(at: number): number {
    let first = this.#json.length;
    for (let i = 0; i < COUNTED.length; i++) {
      let found = this.#found[i]!;
      if (found < at) {
        found = this.#json.indexOf(COUNTED[i]!, at);
        this.#found[i] = found = found < 0 ? Infinity : found;
      }
      if (found < first) first = found;
    }
    return first;
  }
}

function endOfString(json: string, start: number): number {
  let at = start + 1;
  for (let code = json.charCodeAt(at); at < json.length && code !== 0x22; code = json.charCodeAt(at))
    at += code === BACKSLASH ? 2 : 1;
  return at;
}

const beyond = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", `the JSON ${text}`);
