import { InMemoryNetwork } from "@tutti/ports/bus";
import { ClusterView } from "@tutti/admin/operators";
import type { FeedOperation } from "../index.ts";
import {
  type ProcessState,
  AgentAnswered,
  OrderProgressed,
  ProcessOrdered,
  AgentsAsked,
  subjectsOf,
} from "@tutti/protocol";
import { InMemoryStore } from "@tutti/ports/store";
import { noTelemetry } from "@tutti/ports/telemetry";
import { type ActorKey, actorKey, actorToken } from "@tutti/units";
import { FrameReader, FrameWriter } from "@tutti/wire";
import { afterEach, expect, test, vi } from "vitest";
import { Restarts } from "./restarts.ts";

const AGENT = actorKey(77);
const ACTOR = actorToken(actorKey(123_456));
const PROCESS: ProcessState = { name: "profiler", role: "profiler", pid: 7, actor: ACTOR, phase: "ready", restarts: 0 };

afterEach(() => vi.useRealTimers());

/** A console's restarts, and an agent that supervises one process and carries out its orders, or fails. */
function scene(end: "done" | "failed") {
  const network = new InMemoryNetwork();
  const [bus, agent] = [network.connect({ name: "console" }), network.connect({ name: "agent" })];
  const subjects = subjectsOf("main");
  const orders: string[] = [];
  let asker: ActorKey | undefined;
  const tell = (write: (frame: FrameWriter) => void): void => {
    const frame = new FrameWriter(AGENT);
    write(frame);
    agent.publish(subjects.operator(asker!), frame.take());
  };
  const reader = new FrameReader()
    .on(AgentsAsked, ({ ask }, sender) => {
      asker = sender;
      tell((frame) => frame.add(AgentAnswered, { ask, agent: AGENT, host: "here", pid: 1, processes: [PROCESS] }));
    })
    .on(ProcessOrdered, ({ ask, order, process }) => {
      orders.push(`${order} ${process}`);
      tell((frame) => frame.add(OrderProgressed, { ask, text: "the old one ended", end: "" }));
      tell((frame) => frame.add(OrderProgressed, { ask, text: end === "done" ? "" : "it dies at every start", end }));
    });
  for (const subject of [subjects.agents, subjects.agent(AGENT)])
    agent.subscribe(subject, ({ payload }) => void reader.read(payload));
  const told: FeedOperation[] = [];
  const restarts = new Restarts({
    operator: { bus, store: new InMemoryStore() },
    cluster: "main",
    log: noTelemetry.log,
    withView: (use) => use(Object.assign(new ClusterView(), { until: () => Promise.resolve(true) })),
    tell: (operation) => void told.push(operation),
  });
  return { restarts, orders, told };
}

test("an actor is restarted by who keeps it, and every step is told with an end", async () => {
  const { restarts, orders, told } = scene("done");
  await restarts.restart(ACTOR, "127.0.0.1");
  expect(orders).toEqual(["restart profiler"]);
  expect(told[0]).toMatchObject({ what: `restart ${ACTOR}`, text: "asked for by 127.0.0.1" });
  expect(told.map(({ text }) => text)).toContain("the old one ended");
  expect(told.filter(({ end }) => end !== undefined).map(({ end }) => end)).toEqual(["done"]);
  restarts.close();
});

test("one at a time, and what fails is told with its reason and leaves room for the next", async () => {
  const { restarts, told } = scene("failed");
  const first = restarts.restart(ACTOR, "127.0.0.1");
  await expect(restarts.restart(ACTOR, "127.0.0.1")).rejects.toMatchObject({ code: "TUTTI_OVERLOADED" });
  await expect(first).rejects.toThrow(/it dies at every start/);
  expect(told.at(-1)).toMatchObject({
    end: "failed",
    text: expect.stringContaining("it dies at every start") as string,
  });
  await expect(restarts.restart(ACTOR, "127.0.0.1")).rejects.toMatchObject({ code: "TUTTI_UNAVAILABLE" });
  restarts.close();
});

test("a text that is no actor's id, and an actor that nobody keeps, are refused", async () => {
  const { restarts, orders } = scene("done");
  for (const wrong of [undefined, 7, "", "Profiler", "a b", "../x", "a".repeat(40)])
    await expect(restarts.restart(wrong, "?"), String(wrong)).rejects.toMatchObject({ code: "TUTTI_INVALID_INPUT" });
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval"] });
  const refused = expect(restarts.restart("all", "?")).rejects.toThrow(/no agent keeps all/);
  await vi.advanceTimersByTimeAsync(2_000);
  await refused;
  expect(orders).toEqual([]);
  restarts.close();
});
