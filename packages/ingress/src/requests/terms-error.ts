import { TuttiError } from "@tutti/protocol";

/** A fault in the subject or the headers of a request. */
export class TermsError extends TuttiError {
  /** The text for others than the publisher: a wrong value is left out, since it may be a secret. */
  readonly outline: string;

  constructor(text: string, outline = text) {
    super("TUTTI_INVALID_INPUT", text);
    this.outline = outline;
  }
}

export const headerError = (header: string, value: string, fault: string): TermsError =>
  new TermsError(`${header} "${shown(value)}" ${fault}`, `${header} ${fault}`);

/** Text from outside, short enough for an error message. */
export const shown = (text: string): string => (text.length > 80 ? `${text.slice(0, 80)}…` : text);
