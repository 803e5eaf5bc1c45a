import type { AgentAnswered, ProcessState } from "@tutti/protocol";
import { actorKey } from "@tutti/units";
import { expect, test } from "vitest";
import { findTargets, leftDown } from "./targets.ts";

const process = (name: string, role: ProcessState["role"], actor = ""): ProcessState => ({
  name,
  role,
  actor,
  pid: 7,
  phase: "ready",
  restarts: 0,
});
const agent = (host: string, key: number, ...processes: ProcessState[]): AgentAnswered => ({
  ask: 1,
  agent: actorKey(key),
  host,
  pid: 1,
  processes,
});
const AGENTS = [
  agent(
    "a",
    1,
    process("ingress", "ingress", "i1"),
    process("ranker-0", "ranker", "leader"),
    process("ranker-1", "ranker", "spare1"),
    process("executor-0", "executor", "exec-a"),
  ),
  agent("b", 2, process("executor-0", "executor", "exec-b"), process("profiler", "profiler", "p1")),
];
const find = (name: string): string[] =>
  findTargets(name, AGENTS, (actor) => actor === "leader").map(({ host, name: own }) => `${host}/${own}`);

test("all: takers of requests last, and a leader after its spares", () => {
  const all = ["b/profiler", "a/ranker-1", "a/ranker-0", "a/executor-0", "b/executor-0", "a/ingress"];
  expect(find("all")).toEqual(all);
});

test("a role, a process on a host, an actor's id, or the beginning of one", () => {
  expect(find("executor")).toEqual(["a/executor-0", "b/executor-0"]);
  expect(find("ingress")).toEqual(["a/ingress"]);
  expect(find("b/executor-0")).toEqual(["b/executor-0"]);
  expect(find("ranker-1")).toEqual(["a/ranker-1"]);
  expect(find("exec-b")).toEqual(["b/executor-0"]);
  expect(find("lea")).toEqual(["a/ranker-0"]);
});

test("a restart of a role or of all leaves down what is drained, and one by name starts it", () => {
  const parked: ProcessState = { ...process("executor-1", "executor"), phase: "parked", pid: 0 };
  const agents = [agent("a", 1, process("executor-0", "executor", "exec-a"), parked)];
  const left = (name: string): string[] =>
    leftDown(
      name,
      findTargets(name, agents, () => false),
    ).map((target) => target.name);
  expect([left("executor"), left("all"), left("executor-1")]).toEqual([["executor-1"], ["executor-1"], []]);
});

test("what nobody or more than one is called ends with what to write instead", () => {
  expect(() => find("executor-0")).toThrow(/not unique: a\/executor-0 \(pid 7\), b\/executor-0/);
  expect(() => find("exec")).toThrow(/not unique/);
  expect(() => find("conductor")).toThrow(/no "conductor" that an agent keeps; there are: ingress, ranker-0/);
  expect(() => find("exectuor")).toThrow('keeps (did you mean "executor"?); there are');
  expect(() => find("b/executor-1")).toThrow('(did you mean "b/executor-0"?)');
  expect(() => findTargets("all", [], () => false)).toThrow(/no agent answers/);
});
