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
for (const [text, kind] of [
  ['"', QUOTE],
  ["[{", OPEN],
  ["]}", CLOSE],
  [":", COLON],
] as const)
  for (const character of text) KINDS[character.charCodeAt(0)] = kind;
const BACKSLASH = 0x5c;

/**
 * Checks the bounds, at about 1 ns a byte. @throws {TuttiError} INVALID_INPUT naming the bound; invalid JSON is left
 * for the parser to refuse
 */
export function checkJsonBounds(json: Uint8Array): void {
  let [depth, lists, keys] = [0, 0, 0];
  for (let at = 0; at < json.length; at++) {
    switch (KINDS[json[at]!]!) {
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

function endOfString(json: Uint8Array, start: number): number {
  let at = start + 1;
  while (at < json.length && KINDS[json[at]!] !== QUOTE) at += json[at] === BACKSLASH ? 2 : 1;
  return at;
}

const beyond = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", `the JSON ${text}`);
