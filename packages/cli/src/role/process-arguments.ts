import { availableParallelism } from "node:os";
import { join } from "node:path";
import type { Role } from "@tutti/protocol";

/** Where inputs pass. */
const HOLDERS: ReadonlySet<Role> = new Set<Role>(["gateway", "ingress", "executor"]);
/**
 * Inputs lie outside the heap, some 500 KB of buffers for one of 150 KB. V8 marks all of the heap whenever 64 MB of
 * them were allocated, four times a second at 700 such requests a second, though nearly all are dead when the young
 * generation is collected; counted as a part of the heap, they are bounded by its own limit, which begins at 512 MB.
 */
const LARGE_HEAP = ["--initial-old-space-size=512", "--external-memory-accounted-in-global-limit"];

/**
 * V8 optimises a function for good after 3,000 calls and 500 without a change of its types. A scheduler that decides
 * 200 times a second reaches that after a quarter of a minute, in which it takes twice the processor time for each
 * message; a third of that is enough to know a function by.
 */
const EARLY_OPTIMISATION = [
  "--invocation-count-for-maglev=100",
  "--minimum-invocations-after-ic-update=100",
  "--invocation-count-for-turbofan=1000",
];

/** A collection that shares its work waits for threads that have given way (helper-threads.ts). */
export const COLLECT_ALONE = "--single-threaded-gc";

/**
 * V8's helper threads have a nice value (helper-threads.ts), and yet what one compiles is not interrupted for some ms:
 * four of them have had every core of two then.
 */
const ONE_HELPER = "--v8-pool-size=1";

/** On a machine with so few cores V8's helper threads take them from the actors. */
const FEW_CORES = 4;

/** They decide and hold little, and others wait for every one of their decisions. */
const DECIDERS: ReadonlySet<Role> = new Set<Role>(["ranker", "batcher"]);
/**
 * What deciders hold fits into 30 MB, of which V8 marks what lives whenever a quiet process has allocated a few MB: 6
 * to 8 ms of a spare's thread, and always then when it has much to do, which is when it succeeds a leader. So they have
 * twice the room before that, and nobody collects because they are quiet.
 */
const COLLECT_LATE = ["--initial-old-space-size=64", "--no-memory-reducer"];

/** Whether V8's helper threads give way to the actors in these roles. */
export const decides = (roles: readonly Role[]): boolean => roles.every((role) => DECIDERS.has(role));

/**
 * What Node is started with for a process that hosts these roles: its flags, the file that it runs, and the roles.
 * Services are started, never imported.
 */
export const processArguments = (roles: readonly Role[], cores: number = availableParallelism()): string[] => [
  ...(roles.some((role) => HOLDERS.has(role)) ? LARGE_HEAP : []),
  ...EARLY_OPTIMISATION,
  ...(decides(roles) ? [COLLECT_ALONE, ...COLLECT_LATE, ONE_HELPER] : cores <= FEW_CORES ? [ONE_HELPER] : []),
  join(import.meta.dirname, "../../../../services/node/src/main.ts"),
  roles.join(","),
];
