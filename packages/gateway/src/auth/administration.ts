/** Administrative acts: who may do them, and a line in the log for each that is tried. */
import { TuttiError } from "@tutti/protocol";
import type { Logger } from "@tutti/ports/telemetry";
import { authorise } from "../http/bearer.ts";
import type { Access } from "./access.ts";

export interface Act {
  /** `load mlp`. */
  readonly what: string;
  /** An address. */
  readonly from: string;
  /** As the client sent it. */
  readonly authorization: string | undefined;
}

export interface Administration {
  readonly log: Logger;
  /** Undefined: nobody is asked who he is, and the token alone says who may. */
  readonly access: Access | undefined;
  /** Of `--repository-token`. */
  readonly token: string | undefined;
}

/**
 * @param onKnown - told who it is, before it is refused. @throws {TuttiError} UNAUTHENTICATED, FORBIDDEN, as a
 * rejection
 */
export async function checkAdministrator(
  { access, token }: Administration,
  authorization: string | undefined,
  onKnown: (who: string) => void = () => undefined,
): Promise<void> {
  if (access === undefined) {
    authorise(token, authorization);
    return onKnown("repository token");
  }
  const { who, isAdmin } = await access.identify(authorization);
  onKnown(who);
  if (!isAdmin)
    throw new TuttiError(
      "TUTTI_FORBIDDEN",
      `${who} is no administrator's: \`tutti auth key add <app> --admin\` makes one`,
    );
}

/** @throws {TuttiError} UNAUTHENTICATED, FORBIDDEN, and what the act throws, as a rejection */
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
