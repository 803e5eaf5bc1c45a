import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import type { Role } from "@tutti/protocol";

/** Roles whose processes hold inputs. */
const HOLDERS: ReadonlySet<Role> = new Set<Role>(["gateway", "ingress", "executor"]);
/**
 * Settings for large inputs outside the heap, some 500 KB of buffers for one of 150 KB. V8 marks the whole heap
 * whenever 64 MB of them were allocated, four times a second at 700 such requests a second, though nearly all are dead
 * when the young generation is collected. Counted as a part of the heap, they are bounded by its own limit, which
 * begins at 512 MB.
 */
const LARGE_HEAP = ["--initial-old-space-size=512", "--external-memory-accounted-in-global-limit"];

/**
 * Settings for early optimisation. By default V8 finally optimises a function after 3,000 calls and 500 without a
 * change of its types. A scheduler with 200 decisions a second reaches that after a quarter of a minute, in which it
 * takes twice the processor time for each message. A third of the calls is enough to know a function's types.
 */
const EARLY_OPTIMISATION = [
  "--invocation-count-for-maglev=100",
  "--minimum-invocations-after-ic-update=100",
  "--invocation-count-for-turbofan=1000",
];

/** A parallel collection would wait for threads with low priority (helper-threads.ts). */
export const COLLECT_ALONE = "--single-threaded-gc";

/**
 * V8's helper threads have a nice value (helper-threads.ts), but a compiling one is not interrupted for some ms.
 * Without this limit four of them occupied every core of two.
 */
const ONE_HELPER = "--v8-pool-size=1";

/** Number of cores up to which V8's helper threads take cores from the actors. */
const FEW_CORES = 4;

/** Roles that make decisions and hold little data; others wait for every decision. */
const DECIDERS: ReadonlySet<Role> = new Set<Role>(["ranker", "batcher"]);
/**
 * Settings for late collections in deciders, whose live data fits into 30 MB. By default V8 marks the heap whenever a
 * quiet process has allocated a few MB. That takes 6 to 8 ms of a spare's thread, and happens when the spare becomes
 * busy, which is when it succeeds a leader. So the limit before marking is twice as high, and idleness starts no
 * collection.
 */
const COLLECT_LATE = ["--initial-old-space-size=64", "--no-memory-reducer"];

/** Whether an actor of this role decides what runs when. */
export const decides = (role: Role): boolean => DECIDERS.has(role);

/**
 * Node's arguments for a process that hosts these roles: flags, main file, and the roles. Services are started, never
 * imported.
 */
export const processArguments = (roles: readonly Role[], cores: number = availableParallelism()): string[] => [
  ...(roles.some((role) => HOLDERS.has(role)) ? LARGE_HEAP : []),
  ...EARLY_OPTIMISATION,
  ...(roles.every(decides) ? [COLLECT_ALONE, ...COLLECT_LATE, ONE_HELPER] : cores <= FEW_CORES ? [ONE_HELPER] : []),
  fileURLToPath(new URL("../../../../services/node/src/main.ts", import.meta.url)),
  roles.join(","),
];
