/** A checker's finding: the invariant of docs/architecture.md, 3 that does not hold, and the evidence. */
export interface Violation {
  readonly invariant: string;
  readonly text: string;
}
export type Report = (invariant: string, text: string) => void;
