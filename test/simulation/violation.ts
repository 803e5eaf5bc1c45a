/** A checker's finding: which invariant of docs/architecture.md, 3 does not hold, and how that was seen. */
export interface Violation {
  readonly invariant: string;
  readonly text: string;
}
export type Report = (invariant: string, text: string) => void;
