import { ROLES, type Role } from "@tutti/protocol";

/** What a node hosts: everything but the executor, which runs models in a process of its own. */
export const NODE_ROLES: readonly Role[] = ROLES.filter((role) => role !== "executor");
