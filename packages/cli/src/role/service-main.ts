import { join } from "node:path";
import type { Role } from "@tutti/protocol";

/**
 * Where inputs pass: the NATS client allocates 400 KB outside the heap for a message of 150 KB, which makes V8 collect all of a small heap again and again;
 * a larger first heap halves the processor time of such a message.
 */
const LARGE_HEAP: ReadonlySet<Role> = new Set<Role>(["ingress", "executor"]);

/** What Node is started with for a role: its flags, and the file that it runs. Services are started, never imported. */
export const serviceArguments = (role: Role): string[] => [
  ...(LARGE_HEAP.has(role) ? ["--initial-old-space-size=512"] : []),
  join(import.meta.dirname, "../../../../services", role, "src/main.ts"),
];
