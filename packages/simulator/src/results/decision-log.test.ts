import { micros, millis } from "@tutti/units";
import { expect, test } from "vitest";
import { type Decision, decisionHeader, decisionLines, readDecisions } from "./decision-log.ts";
import { explain, tellStory } from "./story.ts";
import { model, smallScenario } from "../testing/small-scenario.ts";

const busy = smallScenario({ rate: 6500, duration: micros(300_000), warmup: micros(0) });

test("a log reads back as what was written, and one of another version is refused", () => {
  const lines = decisionLines(busy);
  const { header, decisions } = readDecisions(lines);
  expect(header).toEqual(decisionHeader(busy));
  expect([header, ...decisions].map((one) => JSON.stringify(one))).toEqual(lines);
  expect(() => readDecisions([lines[0]!.replace('"version":1', '"version":2')])).toThrow("version 2");
});

test.each(["deferred", "eager", "shepherd", "nexus"])("lines are in the order of time under %s (LOG-1)", (policy) => {
  const { decisions } = readDecisions(decisionLines({ ...busy, policy }));
  decisions.forEach((decision, i) => {
    const { at } = decision;
    const before = decisions[i - 1];
    if (before !== undefined && at < before.at) throw new Error(`line ${i + 2} is earlier than line ${i + 1}`);
    const isCompletion = decision.event === "finish" && decision.completed;
    if (isCompletion && before?.at === at && before.event === "arrive") throw new Error(`line ${i + 2} is too late`);
  });
});

test("each request arrives once, and is refused or in one completed batch, never both (LOG-2)", () => {
  const { decisions } = readDecisions(decisionLines(busy));
  const of = <E extends Decision["event"]>(event: E) =>
    decisions.filter((d): d is Extract<Decision, { event: E }> => d.event === event);
  const completed = new Set(of("finish").flatMap(({ batch, completed }) => (completed ? [batch] : [])));
  const ran = of("dispatch").flatMap(({ batch, requests }) => (completed.has(batch) ? requests : []));
  const ended = [...ran, ...of("refuse").map(({ request }) => request)];
  expect(ended.toSorted((a, b) => a - b)).toEqual(of("arrive").map(({ request }) => request));
  expect(of("refuse").length).toBeGreaterThan(0);
});

test("a story says when the request came, which batch it joined, what it waited for and where it ran", () => {
  const story = tellStory(
    smallScenario({ rate: 4000, duration: micros(200_000), arrivals: { process: "uniform" } }),
    3,
  )!;
  const [arrival, joined, sent, reason, ran] = story.split("\n");
  expect(arrival).toMatch(
    /^Request 3 for resnet50 arrived at 0\.\d+ ms; its answer was due 25 ms later, by 25\.\d+ ms\.$/,
  );
  expect(joined).toBe(
    "2 requests of its model waited already: it joined the candidate led by request 1. 0 of 8 accelerators had work.",
  );
  expect(sent).toMatch(
    /^At \d\.\d+ ms it went to accelerator 0 in batch 1, as number 3 of \d+ by deadline, \d+ of which came after it\.$/,
  );
  expect(reason).toMatch(/^It was to start at/);
  expect(ran).toMatch(/^Batch 1 ran on accelerator 0 from .* the result was ready [\d.]+ ms before the deadline\.$/);
});

test("a story says why a request was refused, from the log alone", () => {
  const { header, decisions } = readDecisions(decisionLines(busy));
  const refused = decisions.find((d) => d.event === "refuse" && d.cause === "overloaded");
  const id = (refused as Extract<Decision, { event: "refuse" }>).request;
  const story = explain(header, decisions, id)!;
  expect(story).toBe(tellStory(busy, id));
  expect(story.split("\n").at(-1)).toMatch(
    /^It was refused at .* to keep batches efficient: .* 8 of 8 accelerators had work\.$/,
  );
  const hopeless = smallScenario({ models: [model("m", 1, { slo: micros(5000) })], gpus: 1, duration: micros(50_000) });
  expect(tellStory(hopeless, 1)).toMatch(/as infeasible: 5 ms were left, and even alone it would have taken 6\.13 ms/);
});

test("a story tells of waiting for an accelerator", () => {
  const { header, decisions } = readDecisions(decisionLines(busy));
  const waited = decisions.find((d) => d.event === "dispatch" && d.plan?.start === d.plan?.free);
  const [id] = (waited as Extract<Decision, { event: "dispatch" }>).requests;
  expect(explain(header, decisions, id!)).toMatch(/waited for an accelerator: this one was the first to be free, at/);
});

test("a story tells of a batch that was thrown away for another", () => {
  const mixed = [model("slow", 0.5, { slo: millis(200) }), model("quick", 0.5)];
  const scenario = { ...busy, policy: "shepherd", gpus: 1, rate: 900, models: mixed };
  const { header, decisions } = readDecisions(decisionLines(scenario));
  const thrown = decisions.find((d) => d.event === "finish" && !d.completed) as Extract<Decision, { event: "finish" }>;
  const batch = decisions.find((d) => d.event === "dispatch" && d.batch === thrown.batch);
  const [id] = (batch as Extract<Decision, { event: "dispatch" }>).requests;
  expect(explain(header, decisions, id!)).toMatch(/and was then thrown away for another\.\n/);
});

test("there is no story of a request that never came", () => {
  expect(tellStory(smallScenario({ duration: micros(10_000) }), 5000)).toBeUndefined();
});
