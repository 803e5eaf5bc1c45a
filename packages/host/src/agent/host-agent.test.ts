import { type Bus, InMemoryNetwork } from "@tutti/ports/bus";
import { AgentsAsked, LogsAsked, type LogsTold, type ProcessState, ProcessOrdered, subjectsOf } from "@tutti/protocol";
import { actorKey, micros } from "@tutti/units";
import { FrameWriter } from "@tutti/wire";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import { OperatorLink } from "@tutti/admin/operators";
import { HostAgent } from "./host-agent.ts";
import { ProcessLog } from "./process-log.ts";
import type { OrderOptions, ProcessManager } from "./process-manager.ts";

const KEY = actorKey(77);
const PROCESS: ProcessState = {
  name: "ranker-0",
  role: "ranker",
  pid: 4711,
  actor: "abc",
  phase: "ready",
  restarts: 2,
};

/** Performs orders as the test defines. */
class FakeProcesses implements ProcessManager {
  readonly logs = new ProcessLog();
  readonly performed: string[] = [];
  working: (options: OrderOptions) => Promise<void> = () => Promise.resolve();

  processes(): readonly ProcessState[] {
    return [PROCESS, { ...PROCESS, name: "ranker-1" }];
  }
  perform(order: string, process: string, options: OrderOptions): Promise<void> {
    this.performed.push(`${order} ${process}`);
    return this.working(options);
  }
}

let network: InMemoryNetwork;
let bus: Bus;
let processManager: FakeProcesses;
let agent: HostAgent;
let link: OperatorLink;
beforeEach(() => {
  network = new InMemoryNetwork();
  processManager = new FakeProcesses();
  bus = network.connect({ name: "agent" });
  const host = { bus, cluster: "c", key: KEY, host: "h", pid: 1, processManager };
  agent = new HostAgent({ ...host, beatMs: 10, followMs: 5, forgetMs: 100 });
  link = new OperatorLink(network.connect({ name: "operator" }), "c", { repeatMs: 20, silenceMs: 200, renewMs: 20 });
});
afterEach(() => {
  agent.close();
  link.close();
});

const order = (process: string, texts: string[] = []): Promise<void> =>
  link.order({ agent: KEY, host: "h", order: "restart", process, withinMs: 5_000, onText: (text) => texts.push(text) });

test("an order to split says into which parts; one without, or with a part of nothing, is malformed and nothing happens", async () => {
  let size: number | undefined;
  processManager.working = (options) => Promise.resolve(void (size = options.size));
  const split = { agent: KEY, host: "h", order: "split", process: "ranker-0", withinMs: 5_000 } as const;
  await link.order({ ...split, size: 60, onText: () => undefined });
  expect([processManager.performed, size]).toEqual([["split ranker-0"], 60]);
  for (const wrong of [undefined, 0, 101, 50.5]) {
    const before = agent.faults;
    const asked = link.order({ ...split, ...(wrong !== undefined && { size: wrong }), onText: () => undefined });
    await expect(asked).rejects.toThrow("silent");
    expect(agent.faults).toBeGreaterThan(before);
  }
  expect(processManager.performed).toHaveLength(1);
});

test("an operator hears of every process that an agent keeps", async () => {
  const agents = await link.agents(5_000, (known) => known.length === 1);
  expect(agents).toMatchObject([{ agent: KEY, host: "h", processes: [PROCESS, { name: "ranker-1" }] }]);
});

test("an order is performed once, however often it is repeated, and its progress and end are told (AGENT-1, AGENT-2)", async () => {
  const { promise: held, resolve: letGo } = Promise.withResolvers<void>();
  processManager.working = async ({ report }) => {
    report("starts");
    await held;
    report("is ready");
  };
  const texts: string[] = [];
  const done = order("ranker-0", texts);
  setTimeout(letGo, 150); // longer than several repetitions of the order
  await done;
  expect(processManager.performed).toEqual(["restart ranker-0"]);
  expect(texts).toEqual(["starts", "is ready"]);
});

test("a second order is refused while the first is worked on, and taken afterwards (AGENT-1)", async () => {
  const { promise: held, resolve: letGo } = Promise.withResolvers<void>();
  processManager.working = () => held;
  const first = order("ranker-0");
  await expect(order("ranker-1")).rejects.toThrow("the agent is busy: restart ranker-0");
  letGo();
  await first;
  await order("ranker-1");
  expect(processManager.performed).toEqual(["restart ranker-0", "restart ranker-1"]);
});

test("what can't be done, and what isn't there, is told with the reason", async () => {
  processManager.working = () => Promise.reject(new Error("dies at every start"));
  await expect(order("ranker-0")).rejects.toThrow("dies at every start");
  await expect(order("conductor")).rejects.toThrow("there is no process conductor");
});

test("an agent that dies in the middle of an order is noticed by its silence", async () => {
  processManager.working = ({ report }) => {
    report("starts");
    return new Promise(() => undefined);
  };
  const doomed = order("ranker-0");
  setTimeout(() => bus.close(() => undefined), 30);
  await expect(doomed).rejects.toThrow(/fell silent .* restart ranker-0/);
});

test("kept lines and those to come reach whoever follows, and stop when nobody asks any more", async () => {
  processManager.logs.add("ranker-0", "before");
  processManager.logs.add("ranker-1", "of another");
  const told: LogsTold[] = [];
  const hear = Promise.withResolvers<void>();
  const stream = link.logs({ agent: KEY, process: "ranker-0", backMs: 60_000, follow: true }, (message) => {
    told.push(message);
    if (told.flatMap(({ lines }) => lines).length === 1) processManager.logs.add("ranker-0", "after");
    else hear.resolve();
  });
  await hear.promise;
  stream.stop();
  expect(told.flatMap(({ lines }) => lines.map(({ text }) => text))).toEqual(["before", "after"]);
  const count = told.length;
  for (let i = 0; i < 300; i++) processManager.logs.add("ranker-0", "unheard");
  await new Promise((resolve) => setTimeout(resolve, 150)); // longer than forgetMs: the expiry emits no event
  expect(told.length).toBe(count);
});

test("without following, a log ends by itself, in as many messages as it takes", async () => {
  for (let i = 0; i < 700; i++) processManager.logs.add("ranker-0", `line ${i}`);
  const told: LogsTold[] = [];
  await link.logs({ agent: KEY, process: "ranker-0", backMs: 60_000, follow: false }, (message) => told.push(message))
    .ended;
  expect(told.map(({ lines, end }) => [lines.length, end])).toEqual([
    [256, false],
    [256, false],
    [188, true],
  ]);
});

test("nothing that can be sent stops an agent: it answers afterwards as before (AGENT-3)", async () => {
  const stranger = network.connect({ name: "stranger" });
  const subjects = subjectsOf("c");
  const anything = fc.oneof(
    fc.anything(),
    fc.record({
      ask: fc.anything(),
      order: fc.anything(),
      process: fc.anything(),
      within: fc.anything(),
      back: fc.anything(),
      follow: fc.anything(),
    }),
  );
  fc.assert(
    fc.property(
      fc.constantFrom(AgentsAsked, ProcessOrdered, LogsAsked),
      anything,
      fc.uint8Array(),
      (type, value, bytes) => {
        const writer = new FrameWriter(actorKey(5));
        try {
          writer.add(type, value as never);
        } catch {
          return; // msgpack has no such value
        }
        stranger.publish(subjects.agent(KEY), writer.take());
        stranger.publish(subjects.agents, bytes);
      },
    ),
    { numRuns: 500 },
  );
  expect(await link.agents(5_000, (known) => known.length === 1)).toHaveLength(1);
  expect(agent.faults).toBeGreaterThan(100);
  expect(processManager.performed).toEqual([]);
});

test("followers are bounded: one too many gets the kept lines and an end", async () => {
  const stranger = network.connect({ name: "stranger" });
  for (let ask = 1; ask <= 40; ask++) {
    const writer = new FrameWriter(actorKey(5));
    writer.add(LogsAsked, { ask, process: "ranker-0", back: micros(0), follow: true });
    stranger.publish(subjectsOf("c").agent(KEY), writer.take());
  }
  await link.logs({ agent: KEY, process: "ranker-0", backMs: 1_000, follow: true }, () => undefined).ended;
});
