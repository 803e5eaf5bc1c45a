/** Tests of the verdict on chaos runs, with records made by hand. */
import type { ActorKey } from "@tutti/units";
import { expect, test } from "vitest";
import type { Answer, ChaosRecord, Layout, SentRequest, Strike } from "./record.ts";
import { reportPage } from "./report-page.ts";
import { reportText } from "./report-text.ts";
import { sloUsOf, tokenOf } from "./request-code.ts";
import { type PlannedStrike, strikesOf } from "./strike-plan.ts";
import { failuresOf, judge } from "./verdict.ts";

const [A, B] = [11 as ActorKey, 12 as ActorKey];
const SLO_MS = 400;
const request = (token: number, sentMs: number, ...answers: Answer[]): SentRequest => ({
  ...{ token, model: `echo-${token % 2}`, sentMs, sloMs: SLO_MS, answers, broken: [] },
});
const ok = (atMs: number): Answer => ({ atMs, status: "ok" });
const strike = (fields: Partial<Strike>): Strike => ({
  ...{
    atMs: 1_000,
    name: "ingress-0",
    role: "ingress",
    leading: false,
    alone: false,
    actor: A,
    signal: "SIGKILL",
    backMs: 2_000,
  },
  ...fields,
});
const record = (fields: Partial<ChaosRecord>): ChaosRecord => ({
  ...{
    seed: 1,
    layout: { kind: "spread", nodes: 1 },
    startedMs: 0,
    endedMs: 10_000,
    requests: [],
    strikes: [],
    takers: new Map(),
    counted: new Map(),
  },
  lagMsMax: 0,
  ...fields,
});

test("answers in time, late, refused, wrong and repeated ones are told apart", () => {
  const requests = [
    request(0, 0, ok(100)),
    request(1, 0, ok(450)),
    request(2, 0, { atMs: 1, status: "TUTTI_OVERLOADED" }),
    request(3, 0, { atMs: 1, status: "wrong" }),
    request(4, 0, ok(1), ok(2)),
    request(5, 0, { atMs: 1, status: "NO_INGRESS" }),
  ];
  const verdict = judge(record({ requests }));
  const { answeredOnce, inTime, late, refused } = verdict;
  expect({ answeredOnce, inTime, late, refused }).toEqual({
    ...{ answeredOnce: 5, inTime: 2, late: 1 },
    refused: { TUTTI_OVERLOADED: 1, NO_INGRESS: 1 },
  });
  expect(verdict.twice.map(({ token }) => token)).toEqual([4]);
  expect(verdict.wrong.map(({ token }) => token)).toEqual([3]);
  expect(failuresOf(verdict).join()).toMatch(/1 answered twice.*1 answered wrongly.*in time outside/s);
});

test("no answer, or one after the client gave up, is excused only by a killed or frozen ingress that took the request", () => {
  const kindOf = (sentMs: number, struck: Strike, taker?: ActorKey, ...answers: Answer[]): string => {
    const takers = taker === undefined ? new Map() : new Map([[0, new Set([taker])]]);
    return judge(record({ requests: [request(0, sentMs, ...answers)], strikes: [struck], takers })).fates[0]!.kind;
  };
  const killed = strike({});
  expect(kindOf(900, killed, A)).toBe("unavailable");
  expect(kindOf(900, killed, A, ok(1_600))).toBe("unavailable");
  expect(kindOf(900, killed)).toBe("unavailable");
  expect(kindOf(900, killed, B)).toBe("lost");
  expect(kindOf(400, killed, A)).toBe("lost"); // the request was over before the strike
  expect(kindOf(1_400, killed, A)).toBe("lost"); // the request was sent when it was dead
  expect(kindOf(900, strike({ signal: "SIGTERM" }), A)).toBe("lost");
  expect(kindOf(900, strike({ role: "batcher", name: "batcher-0" }), A)).toBe("lost");
  const frozen = strike({ signal: "SIGSTOP", backMs: 1_500 });
  expect(kindOf(1_400, frozen, A)).toBe("unavailable");
  expect(kindOf(1_800, frozen, A)).toBe("lost");
});

test("a living ingress that took more than it told or answered has lost some", () => {
  const requests = [request(0, 0, ok(10)), request(1, 0), request(2, 0, { atMs: 1, status: "TUTTI_OVERLOADED" })];
  const takers = new Map([[0, new Set([B])]]);
  const unaccounted = (count: number): number =>
    judge(record({ requests, takers, counted: new Map([[B, { requests: count, settled: 2, atMs: 0 }]]) })).unaccounted;
  expect([unaccounted(2), unaccounted(3)]).toEqual([0, 1]);
});

test("what was sent to a gateway is excused only by what became of its own node", () => {
  const kindOf = (name: string, via: string, ...answers: Answer[]): string => {
    const struck = strike({ role: "node", name });
    return judge(record({ requests: [{ ...request(0, 900, ...answers), via }], strikes: [struck] })).fates[0]!.kind;
  };
  expect(kindOf("node-0", "node-0")).toBe("unavailable");
  expect(kindOf("node-0", "node-1")).toBe("lost");
  expect(kindOf("node-0", "node-1", { atMs: 1_400, status: "TUTTI_UNAVAILABLE" })).toBe("lost");
  expect(kindOf("node-0", "node-1", { atMs: 1_300, status: "TUTTI_DEADLINE_EXCEEDED" })).toBe("refused");
});

test("only the connections of a node that was struck may break", () => {
  const kindOf = (atMs: number): string => {
    const broken = [{ name: "node-0", atMs }];
    const struck = strike({ role: "node", name: "node-0", signal: "SIGTERM" });
    return judge(record({ requests: [{ ...request(0, 900, ok(1_100)), broken }], strikes: [struck] })).fates[0]!.kind;
  };
  expect([kindOf(950), kindOf(1_010)]).toEqual(["lost", "in-time"]);
});

test("a living ingress whose own count says that it has not answered all has lost some", () => {
  const requests = [request(0, 0, ok(10)), request(1, 0)];
  const unaccounted = (settled: number): number =>
    judge(record({ requests, counted: new Map([[B, { requests: 2, settled, atMs: 0 }]]) })).unaccounted;
  expect([unaccounted(1), unaccounted(2)]).toEqual([1, 1]);
  expect(judge(record({ requests, counted: new Map([[B, { requests: 1, settled: 1, atMs: 0 }]]) })).unaccounted).toBe(
    0,
  );
});

test("until the only node is back, nothing need be in time", () => {
  const requests = Array.from({ length: 40 }, (_, token) => request(token, 100 * token, ok(100 * token + 5)));
  const judged = (alone: boolean): number =>
    judge(record({ requests, strikes: [strike({ role: "node", name: "node", alone, backMs: 2_000 })] })).judged;
  expect([judged(false), judged(true)]).toEqual([34, 24]);
});

test("time without service is the longest stretch without a good answer of some model after a strike", () => {
  // Both models answer every 10 ms, except one of them from 1,000 to 1,300.
  const requests = Array.from({ length: 600 }, (_, token) => {
    const sentMs = 10 * Math.floor(token / 2);
    return request(token, sentMs, ok(token % 2 === 0 && sentMs >= 1_000 && sentMs < 1_300 ? 1_300 : sentMs + 5));
  });
  const struck = strike({ role: "ranker", name: "ranker-1", leading: true, backMs: 1_400 });
  const verdict = judge(record({ requests, strikes: [struck], endedMs: 3_000 }));
  expect(verdict.strikes[0]!.withoutServiceMs).toBe(300);
  expect(verdict.roles[0]).toMatchObject({ role: "ranker, leading", strikes: 1, p50Ms: 300 });
  expect(verdict.usualMs).toBe(10);
  expect(verdict.judged).toBe(600 - 102);
});

test("a request's number is found again in the SLO of its arrival, also after codes have come round", () => {
  for (const token of [0, 1, 49_999, 50_000, 123_456]) {
    for (const later of [0, 1, 30_000]) expect(tokenOf(sloUsOf(token, 400), 400, token + later)).toBe(token);
  }
  expect(tokenOf(100, 400, 5)).toBeUndefined();
  expect(tokenOf(sloUsOf(7, 400), 400, 5)).toBeUndefined();
});

test("a seed strikes every role with every signal, and the same way each time", () => {
  const first = (seed: number, layout: Layout = { kind: "spread", nodes: 1 }): PlannedStrike[] => {
    const strikes = strikesOf(seed, layout);
    return Array.from({ length: 80 }, () => strikes.next().value as PlannedStrike);
  };
  expect(first(3)).toEqual(first(3));
  expect(first(3)).not.toEqual(first(4));
  const roles = (target: string): string => (target === "leader" ? "ranker" : target.replace(/-\d+$/, ""));
  const seen = new Set(first(3).map(({ target, signal }) => `${roles(target)} ${signal}`));
  for (const role of ["ingress", "batcher", "ranker", "executor", "profiler", "planner", "gateway", "jobs"])
    for (const signal of ["SIGKILL", "SIGTERM", "SIGSTOP"]) expect(seen).toContain(`${role} ${signal}`);
  const targets = (nodes: number): string[] => first(3, { kind: "node", nodes }).map(({ target }) => target);
  const executors = ["executor-0", "executor-1", "executor-2", "executor-3"];
  expect([...new Set(targets(2))].sort()).toEqual([...executors, "leader", "node-0", "node-1"]);
  expect([...new Set(targets(1))].sort()).toEqual([...executors, "node"]);
});

test("the report says in words and in a page that something was lost, or that nothing was", () => {
  const requests = Array.from({ length: 300 }, (_, token) => request(token, 10 * token, ok(10 * token + 5)));
  const good = record({ requests, strikes: [strike({ backMs: 1_200 })], endedMs: 3_000 });
  expect(reportText(good, judge(good))).toMatch(/lost +0\n[^]*\npassed$/);
  expect(reportPage(good, judge(good), "a command <b>")).toMatch(/<h1>Nothing was lost[^]*a command &lt;b&gt;/);
  const bad = record({ ...good, requests: [...requests, request(300, 2_500)] });
  expect(reportText(bad, judge(bad))).toMatch(/lost +1\n[^]*request 300 of echo-0[^]*\nFAILED: 1 lost/);
  expect(reportPage(bad, judge(bad), "")).toMatch(/<h1>Failed/);
});

test("a NATS server that breaks excuses what went over NATS, and the same answer sent again", () => {
  const broke = strike({ name: "nats-1", role: "nats", actor: undefined, atMs: 1_000, backMs: 1_200 });
  const silent = request(0, 900);
  const overHttp = { ...request(1, 900), via: "node-0" };
  const again = request(2, 950, ok(1_050), ok(1_100));
  const other = request(3, 950, ok(1_050), { atMs: 1_100, status: "TUTTI_OVERLOADED" });
  const later = request(4, 5_000, ok(5_050), ok(5_060));
  const verdict = judge(record({ requests: [silent, overHttp, again, other, later], strikes: [broke] }));
  expect(verdict).toMatchObject({ unavailable: 1, repeated: 1 });
  expect(verdict.lost.map(({ token }) => token)).toEqual([1]);
  expect(verdict.twice.map(({ token }) => token)).toEqual([3, 4]);
});

test("three NATS servers are struck in every round, one alone never", () => {
  const targets = (layout: Layout): string[] => {
    const strikes = strikesOf(5, layout);
    return Array.from({ length: 30 }, () => strikes.next().value!.target);
  };
  const struck = targets({ kind: "node", nodes: 2, natsServers: 3 }).filter((target) => target.startsWith("nats-"));
  expect(struck).toHaveLength(10);
  expect(new Set(struck)).toEqual(new Set(["nats-0", "nats-1", "nats-2"]));
  expect(targets({ kind: "node", nodes: 2 }).join()).not.toContain("nats");
});
