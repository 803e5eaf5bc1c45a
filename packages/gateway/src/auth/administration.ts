/** Administrative acts: the permission check, and audit lines in the log for each attempt. */
import { TuttiError } from "@tutti/protocol";
import type { Logger } from "@tutti/ports/telemetry";
import { authorise } from "../http/bearer.ts";
import type { Access } from "./access.ts";

export interface Act {
  /** The act, such as `load mlp`. */
  readonly what: string;
  /** The client's address. */
  readonly from: string;
  /** As the client sent it. */
  readonly authorization: string | undefined;
}

export interface Administration {
  readonly log: Logger;
  /** Undefined: the gateway asks for no keys, and the token alone authorises. */
  readonly access: Access | undefined;
  /** Token of `--admin-token`. */
  readonly token: string | undefined;
}

/**
 * Checks that a client is an administrator.
 *
 * @param onKnown - called with the client's name before it may be refused
 * @throws {TuttiError} UNAUTHENTICATED, FORBIDDEN, as a rejection
 */
export async function checkAdministrator(
  { access, token }: Administration,
  authorization: string | undefined,
  onKnown: (who: string) => void = () => undefined,
): Promise<void> {
  if (access === undefined) {
    authorise(token, authorization);
    return onKnown("admin token");
  }
  const { who, isAdmin } = await access.identify(authorization);
  onKnown(who);
  if (!isAdmin)
    throw new TuttiError(
      "TUTTI_FORBIDDEN",
      `${who} is no administrator's: \`tutti auth key add <app> --admin\` makes one`,
    );
}

/**
 * Runs an administrative act, with audit lines. @throws {TuttiError} UNAUTHENTICATED, FORBIDDEN, and the act's errors,
 * as a rejection
 */
export async function administer<Result>(
  administration: Administration,
  { what, from, authorization }: Act,
  run: () => Promise<Result>,
): Promise<Result> {
  const { log } = administration;
  let who = "?";
  try {
    await checkAdministrator(administration, authorization, (known) => (who = known));
    log.info({ audit: "administration", who, from, what, outcome: "begun" }, what);
    const result = await run();
    log.info({ audit: "administration", who, from, what, outcome: "done" }, what);
    return result;
  } catch (error) {
    const outcome = (error as { readonly code?: string }).code ?? "failed";
    const why = error instanceof Error ? error.message : String(error);
    log.warn({ audit: "administration", who, from, what, outcome, why }, what);
    throw error;
  }
}
