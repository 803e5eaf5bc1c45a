import { TuttiError } from "@tutti/protocol";

/** An authenticated client, as its key or token has proved it. */
export interface Asker {
  /** Application in whose name it may ask for inference; undefined: none. */
  readonly app: string | undefined;
  /** It may change models, restart actors and read the console. */
  readonly isAdmin: boolean;
  /** Name for the audit log. */
  readonly who: string;
  /** End of validity, in milliseconds since 1970. */
  readonly until: number;
}

export const unauthenticated = (text: string): TuttiError => new TuttiError("TUTTI_UNAUTHENTICATED", text);
