/**
 * One actor is restarted as `tutti restart <actor>` does it: under the operators' lock, and done only when all is there
 * again that was there before.
 */
import type { AgentAnswered } from "@tutti/protocol";
import type { Store } from "@tutti/ports/store";
import { CommandError } from "../failure.ts";
import { type ClusterView, lackOf } from "./cluster-view.ts";
import { OperationLock } from "./operation-lock.ts";
import type { OperatorLink } from "./operator-link.ts";
import { roll } from "./rolling.ts";
import { processesOf, tokensOf } from "./targets.ts";

export interface RestartPorts {
  readonly link: OperatorLink;
  /** Where the lock is taken. */
  readonly store: Store;
  /** Of a view that listens. */
  readonly view: ClusterView;
  /** For the lock: who, so that another operator knows whom to ask. */
  readonly who: string;
  readonly onText: (text: string) => void;
}

const AGENTS_MS = 2_000;
const WITHIN_MS = 60_000;

/**
 * @param actor - its id, whole. @throws {CommandError} nobody keeps it, another operator is at work, or it didn't come
 *   back
 */
export async function restartActor(actor: string, ports: RestartPorts): Promise<void> {
  const { link, store, view, who, onText } = ports;
  const keeps = (agents: readonly AgentAnswered[]): boolean =>
    processesOf(agents).some((process) => tokensOf(process).includes(actor));
  const target = processesOf(await link.agents(AGENTS_MS, keeps)).find((process) => tokensOf(process).includes(actor));
  if (target === undefined)
    throw new CommandError(
      `no agent keeps ${actor}: it has gone, or was started by hand (\`tutti run\` without --agent-creds)`,
    );
  const lock = await OperationLock.take(store, { who, what: `restart ${target.name}` }, onText);
  try {
    const before = view.wholeness();
    const { failure } = await roll(
      [target],
      {
        order: ({ agent, host, name: process }, order, onStep) =>
          link.order({ agent, host, order, process, withinMs: WITHIN_MS, onText: onStep }),
        lack: () => lackOf(before, view.wholeness()),
        assertAlone: () => lock.assertHeld(),
        now: () => performance.now(),
        wait: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
      },
      {
        order: "restart",
        settleMs: WITHIN_MS,
        isStopped: () => false,
        onStep: ({ kind, text }) => onText(kind === "done" ? `took ${text}` : text),
      },
    );
    if (failure !== undefined) throw new CommandError(failure);
  } finally {
    await lock.release();
  }
}
