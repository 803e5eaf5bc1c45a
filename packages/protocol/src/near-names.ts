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
 * begins, or that begins `typed`. Linear in the names' lengths: requests ask for it.
 */
export function nearName(typed: string, names: Iterable<string>): string | undefined {
  const wanted = plain(typed);
  let beginning: string | undefined;
  for (const name of names) {
    if (Math.min(name.length, typed.length) < 2) continue;
    const other = plain(name);
    if (isOneChange(wanted, other)) return name;
    const shorter = Math.min(wanted.length, other.length);
    if (shorter >= BEGINNING_MIN && wanted.slice(0, shorter) === other.slice(0, shorter)) beginning ??= name;
  }
  return beginning;
}

const plain = (name: string): string => name.toLowerCase().replace(/[-_]/g, "");

/** Whether at most one letter is added, left out or replaced, or two neighbours are swapped. */
function isOneChange(a: string, b: string): boolean {
  if (Math.abs(a.length - b.length) > 1) return false;
  const least = Math.min(a.length, b.length);
  let start = 0;
  while (start < least && a[start] === b[start]) start++;
  let end = 0;
  while (end < least - start && a.at(-1 - end) === b.at(-1 - end)) end++;
  const [left, right] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  if (left.length <= 1 && right.length <= 1) return true;
  return left.length === 2 && right.length === 2 && left[0] === right[1] && left[1] === right[0];
}
