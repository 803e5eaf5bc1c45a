/**
 * Restarts one actor as `tutti restart <actor>` does, under the operators' lock. It is done only when the cluster is as
 * whole as it was before.
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
  /** Store that holds the lock. */
  readonly store: Store;
  /** A view that is already listening. */
  readonly view: ClusterView;
  /** Operator's name in the lock, for other operators who find it taken. */
  readonly who: string;
  readonly onText: (text: string) => void;
}

const AGENTS_MS = 2_000;
const WITHIN_MS = 60_000;

/**
 * @param actor - its whole id
 * @throws {CommandError} no agent manages the actor, another operator is at work, or the actor didn't come back
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
