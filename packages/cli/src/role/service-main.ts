import { join } from "node:path";
import type { Role } from "@tutti/protocol";

/** The file that a role's process runs. Services are started, never imported. */
export const serviceMain = (role: Role): string =>
  join(import.meta.dirname, "../../../../services", role, "src/main.ts");
