import { TuttiError } from "@tutti/protocol";
import { note, print } from "./print.ts";

/** Exit codes, as `tutti --help` lists them. */
export const EXIT = {
  ok: 0,
  /** The cluster or the request caused a refusal: the error's code says which. */
  failed: 1,
  /** The command line is invalid, or the file of its options. */
  usage: 2,
  /** There is no cluster, or it can't be reached. */
  unavailable: 3,
} as const;

/** An error that the user can correct; the text says how. Printed without a stack. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly exitCode: number;

  constructor(text: string, exitCode: number = EXIT.failed, cause?: unknown) {
    super(text, cause === undefined ? undefined : { cause });
    this.exitCode = exitCode;
  }
}

export const usageError = (text: string): CommandError => new CommandError(text, EXIT.usage);

export interface Failure {
  readonly text: string;
  readonly code: string;
  readonly retryable: boolean;
  readonly exitCode: number;
}

/** Explains a failure to the user. Unexpected errors keep their stack, because they are our mistakes. */
export function explain(error: unknown): Failure {
  if (error instanceof TuttiError) {
    const unreachable = error.code === "TUTTI_UNAVAILABLE";
    const { message: text, code, retryable } = error;
    return { text, code, retryable, exitCode: unreachable ? EXIT.unavailable : EXIT.failed };
  }
  if (error instanceof CommandError) {
    return { text: error.message, code: "TUTTI_COMMAND", retryable: false, exitCode: error.exitCode };
  }
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { text, code: "TUTTI_INTERNAL", retryable: false, exitCode: EXIT.failed };
}

/** Prints the failure and sets the exit code; with `json` as one JSON object on stdout. */
export function report(error: unknown, json: boolean): void {
  const { text, code, retryable, exitCode } = explain(error);
  if (json) print(JSON.stringify({ error: text, code, retryable }));
  else note(`tutti: ${text}${code.startsWith("TUTTI_COMMAND") ? "" : ` (${code})`}`);
  process.exitCode = exitCode;
}
