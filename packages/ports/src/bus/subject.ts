/** Subjects are tokens joined by dots. In a pattern `*` stands for one token, and a last `>` for one or more. */

/**
 * True for a subject to publish to. It has no empty token, no wildcard, and no white space or control character (which
 * would end the protocol line).
 */
export function isSubject(subject: string): boolean {
  return isWellFormed(subject) && !subject.split(".").some((token) => token === "*" || token === ">");
}

/** True for a subject to subscribe to. `*` and `>` are wildcards only as whole tokens; `a*` is an ordinary token. */
export function isPattern(pattern: string): boolean {
  if (!isWellFormed(pattern)) return false;
  const tail = pattern.indexOf(">");
  return tail < 0 || !pattern.split(".").slice(0, -1).includes(">");
}

export const isLiteral = (pattern: string): boolean => !/(^|\.)[*>](\.|$)/.test(pattern);

/** Does `subject` (without wildcards) match `pattern`? */
export function matches(pattern: string, subject: string): boolean {
  if (pattern === subject) return true;
  let p = 0;
  let s = 0;
  for (;;) {
    const patternEnd = tokenEnd(pattern, p);
    const subjectEnd = tokenEnd(subject, s);
    const single = patternEnd - p === 1;
    if (single && pattern[p] === ">" && patternEnd === pattern.length) return s < subject.length;
    const equal =
      single && pattern[p] === "*" ? subjectEnd > s : sameToken(pattern, p, patternEnd, subject, s, subjectEnd);
    if (!equal) return false;
    if (patternEnd === pattern.length || subjectEnd === subject.length) {
      return patternEnd === pattern.length && subjectEnd === subject.length;
    }
    p = patternEnd + 1;
    s = subjectEnd + 1;
  }
}

/** Is everything that `inner` matches also matched by `outer`? For permissions. */
export function covers(outer: string, inner: string): boolean {
  const outerTokens = outer.split(".");
  const innerTokens = inner.split(".");
  for (let i = 0; i < outerTokens.length; i++) {
    const wanted = outerTokens[i];
    const token = innerTokens[i];
    if (token === undefined) return false;
    if (wanted === ">") return true;
    if (token === ">" || (wanted !== "*" && wanted !== token)) return false;
  }
  return outerTokens.length === innerTokens.length;
}

/**
 * True for a valid header. The name has no white space or colon. The value has no line breaks, which would make more
 * headers of it.
 */
export const isHeader = (name: string, value: string): boolean => HEADER_NAME.test(name) && !/[\r\n]/.test(value);
const HEADER_NAME = /^[!-9;-~]+$/;

function isWellFormed(subject: string): boolean {
  return (
    subject.length > 0 && subject.length <= SUBJECT_LENGTH_MAX && !/[\u0000-\u0020\u007f]|^\.|\.\.|\.$/.test(subject)
  );
}

/** NATS allows a control line of 4096 bytes for subject, reply and sizes. */
export const SUBJECT_LENGTH_MAX = 1024;

function tokenEnd(subject: string, from: number): number {
  const dot = subject.indexOf(".", from);
  return dot < 0 ? subject.length : dot;
}

function sameToken(a: string, aFrom: number, aTo: number, b: string, bFrom: number, bTo: number): boolean {
  if (aTo - aFrom !== bTo - bFrom) return false;
  for (let i = 0; i < aTo - aFrom; i++) if (a.charCodeAt(aFrom + i) !== b.charCodeAt(bFrom + i)) return false;
  return true;
}
