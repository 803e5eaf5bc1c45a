/**
 * Texts of refusals for others than the publisher (REFUSALS-4). A pipeline's error has the code of its stage's or
 * function's.
 */
import type { ErrorCode, Refuser, TuttiError } from "@tutti/protocol";
import { TermsError } from "./terms-error.ts";

const QUOTING: ReadonlySet<ErrorCode> = new Set(["TUTTI_INVALID_INPUT", "TUTTI_INTERNAL"]);

/** @returns undefined: it may quote an input */
export function tellableText(error: TuttiError, by: Refuser): string | undefined {
  if (error instanceof TermsError) return error.outline;
  return by === "executor" || QUOTING.has(error.code) ? undefined : error.message;
}
