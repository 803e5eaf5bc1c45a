/** A process that floods a system with one kind of body: its parent says where, and when it is enough. */
import { once } from "node:events";
import { setPriority } from "node:os";
import type { Target } from "./doors.ts";
import { KINDS } from "./kinds.ts";

/**
 * A real attacker has a machine of its own. On the machine of the attacked it takes the processor time that nobody else
 * wants.
 */
const PRIORITY = 19;

interface FloodOrder {
  readonly kind: string;
  readonly target: Target;
}

/** How many were sent, by what became of them. */
export type FloodReport = Readonly<Record<string, number>>;

let isOver = false;
const counts: Record<string, number> = {};

process.on("disconnect", () => process.exit(1));
setPriority(PRIORITY);
const [{ kind, target }] = (await once(process, "message")) as [FloodOrder];
const flood = KINDS.find(({ name }) => name === kind)!.prepare();
process.send?.("ready");
process.on("message", (message: "begin" | "stop") => {
  if (message === "stop") isOver = true;
  else void run();
});

async function run(): Promise<void> {
  await flood({
    ...target,
    isOver: () => isOver,
    count: (outcome) => void (counts[outcome] = (counts[outcome] ?? 0) + 1),
  });
  process.send?.(counts satisfies FloodReport, () => process.exit(0));
}
