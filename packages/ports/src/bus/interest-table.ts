import { isLiteral, matches } from "./subject.ts";

/**
 * Subscriptions by pattern, found by subject. Literal patterns and those whose only wildcard is a last `*` are looked
 * up; the few others are compared one by one.
 */
export class InterestTable<T> {
  readonly #literal = new Map<string, T[]>();
  /** Subscriptions by the part of the pattern before the last `.*`. */
  readonly #lastStar = new Map<string, T[]>();
  readonly #others: { readonly pattern: string; readonly value: T }[] = [];
  /** Matches found since the last change: actors publish to the same few subjects. */
  readonly #found = new Map<string, readonly T[]>();

  add(pattern: string, value: T): void {
    this.#found.clear();
    const place = this.#placeOf(pattern);
    if (place === undefined) {
      this.#others.push({ pattern, value });
      return;
    }
    const { map, key } = place;
    const known = map.get(key);
    if (known === undefined) map.set(key, [value]);
    else known.push(value);
  }

  remove(pattern: string, value: T): void {
    this.#found.clear();
    const place = this.#placeOf(pattern);
    if (place === undefined) {
      const at = this.#others.findIndex((other) => other.pattern === pattern && other.value === value);
      if (at >= 0) this.#others.splice(at, 1);
      return;
    }
    const { map, key } = place;
    // Make a new list: a message that is being delivered goes on with the old one.
    const left = map.get(key)?.filter((other) => other !== value) ?? [];
    if (left.length === 0) map.delete(key);
    else map.set(key, left);
  }

  /** Subscriptions that match the subject; borrowed until the next change. */
  match(subject: string): readonly T[] {
    const known = this.#found.get(subject);
    if (known !== undefined) return known;
    const found = this.#find(subject);
    if (this.#found.size >= FOUND_MAX) this.#found.clear();
    this.#found.set(subject, found);
    return found;
  }

  #find(subject: string): readonly T[] {
    const literal = this.#literal.get(subject);
    let found: readonly T[] | undefined = literal;
    if (this.#lastStar.size > 0) {
      const starred = this.#lastStar.get(subject.slice(0, Math.max(0, subject.lastIndexOf("."))));
      if (starred !== undefined) found = found === undefined ? starred : [...found, ...starred];
    }
    for (const { pattern, value } of this.#others)
      if (matches(pattern, subject)) found = found === undefined ? [value] : [...found, value];
    return found ?? NONE;
  }

  all(): T[] {
    return [...this.#literal.values(), ...this.#lastStar.values(), this.#others.map(({ value }) => value)].flat();
  }

  #placeOf(pattern: string): { readonly map: Map<string, T[]>; readonly key: string } | undefined {
    if (isLiteral(pattern)) return { map: this.#literal, key: pattern };
    const head = pattern.slice(0, -2);
    if (pattern.endsWith(".*") && isLiteral(head)) return { map: this.#lastStar, key: head };
    return undefined;
  }
}

/** Most cached subjects; reply subjects are new each time. */
const FOUND_MAX = 512;
const NONE: readonly never[] = [];
