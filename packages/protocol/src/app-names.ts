import { NAME_RULE, isName } from "./limits.ts";
import { ROLES } from "./subjects.ts";

/**
 * Names of Tutti's own: of its roles, of the other users of its NATS servers, and those in which commands, examinations
 * and warm-ups make requests. An application of such a name would hear answers that are meant for them.
 */
const RESERVED: ReadonlySet<string> = new Set([
  ...ROLES,
  ...["node", "answers", "admin", "agent", "recorder", "local"],
  ...["cli", "doctor", "warm-up"],
]);
/** Connections of commands are called `tutti-…`, and applications' users `app-…`. */
const RESERVED_PREFIXES = ["tutti-", "app-"];

/** Why nobody may declare an application of this name, or give it credentials; undefined: it is a name for one. */
export function appNameProblem(app: string): string | undefined {
  if (!isName(app)) return `"${app}" is no name of an application: ${NAME_RULE}`;
  if (!RESERVED.has(app) && !RESERVED_PREFIXES.some((prefix) => app.startsWith(prefix))) return undefined;
  return `"${app}" is reserved for Tutti itself, as are the names of its roles, ${[...RESERVED].slice(-3).join(", ")} and all that begin with ${RESERVED_PREFIXES.join(" or ")}: choose another name`;
}
