/** Costs in steps (docs/algorithms.md, B8) from a publisher's header to its answer, through whole actors. */
import { HEADER, RequestCosts, subjectsOf } from "@tutti/protocol";
import { type Instant, Prng, millis, seconds } from "@tutti/units";
import { FrameReader } from "@tutti/wire";
import { expect, test } from "vitest";
import { echoRequest, readEcho } from "../fixtures/actor-cluster/echo-model.ts";
import { VirtualCluster } from "./virtual-cluster.ts";
import type { Asked } from "./virtual-cluster-options.ts";

const MODEL = { name: "wide", alphaMs: 2, betaMs: 8, sloMs: 60, batchSizeMax: 16 };
const COSTS = "60ms=1, 600ms=3";
const LAST = millis(600);

function serving(): VirtualCluster {
  const cluster = new VirtualCluster({ gpus: 2, policy: { kind: "adaptive" }, aloneShare: 0 });
  cluster.addModel(MODEL);
  cluster.run(seconds(2));
  return cluster;
}

/** Bursts of 200 requests, more than are served within the SLO, each followed by a second of calm. */
function bursts(cluster: VirtualCluster, costsOf: (i: number) => string | undefined): Asked[] {
  const prng = new Prng(7);
  const asked: Asked[] = [];
  for (let burst = 0; burst < 4; burst++) {
    let at = cluster.clock.now();
    for (let i = 0; i < 200; i++) {
      at = (at + prng.nextInt(300)) as Instant;
      cluster.clock.advanceTo(at);
      const costs = costsOf(i);
      asked.push(cluster.ask(MODEL.name, { sloMs: MODEL.sloMs, ...(costs !== undefined && { costs }) }));
    }
    cluster.run(seconds(1));
  }
  return asked;
}

const isOk = ({ outcomes }: Asked): boolean => outcomes[0]!.status === "ok";
const latency = ({ at, outcomes }: Asked): number => outcomes[0]!.at - at;

test("requests with a second step are served after their SLO where those without are refused, and nobody later (B8)", () => {
  const cluster = serving();
  const asked = bursts(cluster, (i) => (i % 2 === 0 ? COSTS : undefined));
  for (const one of asked) expect(one.outcomes.length).toBe(1);
  const [stepped, plain] = [0, 1].map((rest) => asked.filter((_, i) => i % 2 === rest)) as [Asked[], Asked[]];
  const refusedPlain = plain.filter((one) => !isOk(one));
  expect(refusedPlain.length).toBeGreaterThan(100);
  for (const one of plain.filter(isOk)) expect(latency(one)).toBeLessThanOrEqual(millis(MODEL.sloMs));
  const late = stepped.filter((one) => isOk(one) && latency(one) > millis(MODEL.sloMs));
  expect(late.length).toBeGreaterThan(100);
  expect(stepped.filter((one) => !isOk(one))).toEqual([]);
  for (const one of late) expect(latency(one)).toBeLessThanOrEqual(LAST);
  // Requests that still meet their SLOs aren't pushed aside by those that have missed theirs.
  const withoutSteps = bursts(serving(), () => undefined).filter((_, i) => i % 2 === 1);
  expect(plain.filter(isOk).length).toBeGreaterThan(0.9 * withoutSteps.filter(isOk).length);
});

test("without a room in time, the last step is the one that is named, and the answer comes by it (T1, T3)", () => {
  const cluster = serving();
  const asked = bursts(cluster, () => "60ms=1, 90ms=3");
  const refused = asked.filter((one) => !isOk(one));
  expect(refused.length).toBeGreaterThan(100);
  for (const one of asked) expect(latency(one)).toBeLessThanOrEqual(millis(90 + 50));
  // A run alone takes 10 ms.
  const hopeless = cluster.ask(MODEL.name, { sloMs: 1, costs: "1ms=1, 9ms=3" });
  cluster.run(seconds(1));
  expect(hopeless.outcomes).toMatchObject([{ status: "TUTTI_DEADLINE_INFEASIBLE" }]);
  expect(hopeless.outcomes[0]!.text).toContain("9 ms");
});

test("only a request with costs sends them, in the frame of its arrival; wrong ones are refused with the reason", () => {
  const cluster = serving();
  const steps: number[] = [];
  const reader = new FrameReader().on(RequestCosts, (costs) => void steps.push(costs.steps.length));
  const bus = cluster.network.connect({ name: "outside" });
  bus.subscribe(`${subjectsOf("main").prefix}.to.*`, ({ payload }) => void reader.read(payload));
  const ask = (costs: string | undefined, more: Record<string, string> = {}): { status: string; text: string } => {
    const answers: { status: string; text: string }[] = [];
    const inbox = bus.newInbox();
    bus.subscribe(inbox, (delivery) => void answers.push(readEcho(delivery)));
    const { payload, headers } = echoRequest(1, millis(60));
    if (costs !== undefined) headers[HEADER.costs] = costs;
    bus.publish(`infer.${MODEL.name}.app`, payload, { reply: inbox, headers: { ...headers, ...more } });
    cluster.run(millis(200));
    expect(answers.length).toBe(1);
    return answers[0]!;
  };
  expect([ask(undefined).status, steps]).toEqual(["ok", []]);
  expect([ask(COSTS).status, steps]).toEqual(["ok", [2]]);
  expect([ask("60ms=1, 80ms=1, 100ms=2").status, steps]).toEqual(["ok", [2, 2]]); // one step changes nothing
  const wrong: Record<string, string> = {
    "60ms=1, 60ms=2": "not later than",
    "60ms=1, 50ms=2": "not later than",
    "60ms=2, 90ms=1": "a later answer can't cost less",
    "60ms=-1": "give a number from 0",
    "60ms=NaN": "give a number from 0",
    "60ms": "is no step",
    "60=1=2": "is no step",
    "": "is no step",
    "50ms=1, 90ms=2": "the first step of Tutti-Costs is the SLO",
  };
  for (const [costs, text] of Object.entries(wrong))
    expect([costs, ask(costs)]).toMatchObject([
      costs,
      { status: "TUTTI_INVALID_INPUT", text: expect.stringContaining(text) },
    ]);
  expect(steps.length).toBe(2);
});
