/**
 * `tutti restart`, `tutti drain`, `tutti undrain` and `tutti split`: operations on processes, under the operators'
 * lock. They find the named processes, and go through them one after the other.
 */
import { hostname, userInfo } from "node:os";
import type { AgentAnswered, ProcessOrder } from "@tutti/protocol";
import { actorToken } from "@tutti/units";
import type { ClusterOptions } from "../cluster/find-cluster.ts";
import { withCluster } from "../cluster/connection.ts";
import { CommandError, usageError } from "../failure.ts";
import { print } from "../print.ts";
import { secondsOption } from "../seconds-option.ts";
import { ClusterView, type HeardActor, lackOf } from "./cluster-view.ts";
import { OperationLock } from "./operation-lock.ts";
import { OperatorLink } from "./operator-link.ts";
import { type RollingEnd, type Step, roll } from "./rolling.ts";
import { type Target, findTargets, leftDown, tokensOf } from "./targets.ts";

export interface OperationOptions extends ClusterOptions {
  readonly json?: boolean;
  /** For `split`: the first part's share, in percent. */
  readonly size?: number;
  /** Seconds. */
  readonly timeout: string;
}

/** Actors report once a second; agents answer in milliseconds. */
const LISTEN_MS = 3_000;
const AGENTS_MS = 2_000;

export async function operate(order: ProcessOrder, name: string, options: OperationOptions): Promise<void> {
  const timeoutMs = secondsOption("--timeout", options.timeout, { least: 1, most: 600 });
  const teller = createTeller(order, options.json === true);
  const stop = { asked: false };
  const onInterrupt = (): void => {
    if (stop.asked) process.exit(130);
    stop.asked = true;
    teller.note("stops after this one; Ctrl-C again leaves at once, and the agent ends what it has begun");
  };
  process.on("SIGINT", onInterrupt);
  try {
    await withCluster({ ...options, name: "tutti-operator" }, async ({ control, store }, { cluster }) => {
      const view = new ClusterView();
      const listening = view.listen(control, cluster);
      const link = new OperatorLink(control, cluster);
      try {
        const { targets, down, unkept } = await whoIsMeant(order, name, view, link);
        if (down.length > 0) teller.note(`down, and left so: ${down.map(placeOf).join(", ")}`);
        const what = `${order} ${name}`;
        const lock = await OperationLock.take(
          store,
          { who: `${userInfo().username}@${hostname()}`, what },
          teller.note,
        );
        try {
          const end = await go(order, targets, {
            size: options.size,
            view,
            link,
            lock,
            timeoutMs,
            stop,
            onStep: teller.step,
          });
          teller.end(end, unkept);
        } finally {
          await lock.release();
        }
      } finally {
        link.close();
        listening.stop();
      }
    });
  } finally {
    process.off("SIGINT", onInterrupt);
  }
}

async function whoIsMeant(
  order: ProcessOrder,
  name: string,
  view: ClusterView,
  link: OperatorLink,
): Promise<{ targets: readonly Target[]; down: readonly Target[]; unkept: readonly HeardActor[] }> {
  await view.until(() => view.hasReports(1), LISTEN_MS);
  const agents = await link.agents(AGENTS_MS, (known) => unkeptOf(view, known).length === 0);
  const leading = new Set(
    view
      .actors()
      .filter(({ beat }) => (beat.epoch ?? 0) > 0)
      .map(({ key }) => actorToken(key)),
  );
  const found = findTargets(name, agents, (actor) => leading.has(actor));
  const down = order === "restart" ? leftDown(name, found) : [];
  const targets = found.filter((target) => !down.includes(target));
  if (targets.length === 0)
    throw new CommandError(`${down.map(placeOf).join(", ")}: drained, so that \`tutti undrain <executor>\` starts it`);
  const wrong = order === "restart" ? undefined : targets.find(({ role }) => role !== "executor");
  if (wrong !== undefined)
    throw usageError(
      `${order} is for executors, and ${wrong.name} is of the role ${wrong.role}: \`tutti restart\` replaces it`,
    );
  const unkept = unkeptOf(view, agents).filter(({ beat }) => name === "all" || name === beat.role);
  return { targets, down, unkept };
}

const placeOf = ({ host, name }: Target): string => `${host}/${name}`;

const unkeptOf = (view: ClusterView, agents: readonly AgentAnswered[]): HeardActor[] => {
  const kept = new Set(agents.flatMap(({ processes }) => processes.flatMap(tokensOf)));
  return view.actors().filter(({ key }) => !kept.has(actorToken(key)));
};

interface Going {
  readonly size: number | undefined;
  readonly view: ClusterView;
  readonly link: OperatorLink;
  readonly lock: OperationLock;
  readonly timeoutMs: number;
  readonly stop: { readonly asked: boolean };
  readonly onStep: (step: Step) => void;
}

function go(order: ProcessOrder, targets: readonly Target[], going: Going): Promise<RollingEnd> {
  const { size, view, link, lock, timeoutMs, stop, onStep } = going;
  const before = view.wholeness();
  return roll(
    targets,
    {
      order: ({ agent, host, name: process }, _, onText) =>
        link.order({ agent, host, order, process, size, withinMs: timeoutMs, onText }),
      // A split changes the number of accelerators, so there is nothing to compare.
      lack: () => (order === "split" ? undefined : lackOf(before, view.wholeness())),
      assertAlone: () => lock.assertHeld(),
      now: () => performance.now(),
      wait: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
    },
    { order, settleMs: timeoutMs, isStopped: () => stop.asked, onStep },
  );
}

interface Teller {
  note(text: string): void;
  step(step: Step): void;
  /** @throws {CommandError} not everything was done */
  end(end: RollingEnd, unkept: readonly HeardActor[]): void;
}

const PAST: Readonly<Record<ProcessOrder, string>> = {
  restart: "restarted",
  drain: "drained",
  undrain: "brought back",
  split: "switched over",
};

function createTeller(order: ProcessOrder, json: boolean): Teller {
  const write = (event: Readonly<Record<string, unknown>>, text: string): void =>
    print(json ? JSON.stringify(event) : text);
  return {
    note: (text) => write({ event: "note", text }, text),
    step({ target, number, count, kind, text }) {
      const { host, name, role, actor } = target;
      const place = `[${String(number).padStart(String(count).length)}/${count}]`;
      const line =
        kind === "goes-on"
          ? `${" ".repeat(place.length)}   ${text}`
          : `${place} ${kind === "done" ? `done after ${text}` : text}`;
      write({ event: kind, number, count, host, process: name, role, actor, text }, line);
    },
    end({ done, left, failure }, unkept) {
      const tally = `${done.length} of ${done.length + left.length} ${PAST[order]}`;
      write(
        {
          event: "end",
          done: done.length,
          left: left.map(placeOf),
          failure: failure ?? null,
        },
        `${tally}.`,
      );
      if (failure !== undefined) throw new CommandError(`${tally}: ${failure}`);
      if (unkept.length === 0) return;
      const who = unkept.map(({ key, beat }) => `${beat.role} ${actorToken(key)} (${beat.host}, pid ${beat.pid})`);
      throw new CommandError(
        `no agent keeps ${who.join(", ")}, so they were not ${PAST[order]}: start them by \`tutti up\`, or \`tutti run\` with --agent-creds`,
      );
    },
  };
}
