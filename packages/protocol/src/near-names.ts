/** Suggests a model where a publisher asks for one that isn't there. */
import { TuttiError } from "./errors.ts";

/** Letters of which two names must agree before one that only begins like the other is suggested. */
const BEGINNING_MIN = 3;

/** The refusal of a request to a name that no model has; it names a similar one of `names`, if there is any. */
export function noModelError(name: string, names: Iterable<string> = []): TuttiError {
  const near = nearName(name, names);
  const advice = near === undefined ? '"tutti models" lists what is' : `did you mean "${near}"?`;
  return new TuttiError("TUTTI_NOT_FOUND", `no model named "${name}" is loaded: ${advice}`);
}

/**
 * A name that differs from `typed` in case, in marks, in one letter, or in two that are swapped; else one that `typed`
 * begins, or that begins `typed`. Requests ask for it: it makes no texts of thousands of names.
 */
export function nearName(typed: string, names: Iterable<string>): string | undefined {
  const wanted = typed.toLowerCase().replace(/[-_]/g, "");
  let beginning: string | undefined;
  for (const name of names) {
    if (Math.min(name.length, typed.length) < 2) continue;
    const likeness = likenessOf(wanted, name);
    if (likeness === "near") return name;
    if (likeness === "begins") beginning ??= name;
  }
  return beginning;
}

/**
 * "near": at most one letter is added, left out or replaced, or two neighbours are swapped.
 *
 * @param wanted - without marks, in lower case
 */
function likenessOf(wanted: string, name: string): "near" | "begins" | undefined {
  let [start, first] = [0, 0];
  for (; first < name.length; first++) {
    const letter = letterAt(name, first);
    if (letter === MARK) continue;
    if (letter !== wanted.charCodeAt(start)) break;
    start++;
  }
  let [end, last] = [wanted.length, name.length];
  for (; last > first; last--) {
    const letter = letterAt(name, last - 1);
    if (letter === MARK) continue;
    if (end === start || letter !== wanted.charCodeAt(end - 1)) break;
    end--;
  }
  const left = end - start;
  if (left <= 2) {
    const others: number[] = [];
    for (let at = first; at < last && others.length < 3; at++)
      if (letterAt(name, at) !== MARK) others.push(letterAt(name, at));
    if (left <= 1 && others.length <= 1) return "near";
    const isSwapped = wanted.charCodeAt(start) === others[1] && wanted.charCodeAt(start + 1) === others[0];
    if (left === 2 && others.length === 2 && isSwapped) return "near";
  }
  return start >= BEGINNING_MIN && (start === wanted.length || first === name.length) ? "begins" : undefined;
}

const MARK = 0;
/** A character without case, or MARK for "-" and "_". */
function letterAt(name: string, at: number): number {
  const code = name.charCodeAt(at);
  if (code === 0x2d || code === 0x5f) return MARK;
  return code >= 0x41 && code <= 0x5a ? code + 0x20 : code;
}
