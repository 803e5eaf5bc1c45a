import { TuttiError } from "@tutti/protocol";

/** Who asks, as a key or a token has proved it. */
export interface Asker {
  /** In whose name it may ask for inference; undefined: in nobody's. */
  readonly app: string | undefined;
  /** It may change models, restart actors and read the console. */
  readonly isAdmin: boolean;
  /** For the audit log. */
  readonly who: string;
  /** Milliseconds since 1970. */
  readonly until: number;
}

export const unauthenticated = (text: string): TuttiError => new TuttiError("TUTTI_UNAUTHENTICATED", text);
