import { ROLES, type Role } from "./subjects.ts";

/** Roles of a node: all but the executor, which runs models in a process of its own. */
export const NODE_ROLES: readonly Role[] = ROLES.filter((role) => role !== "executor");
