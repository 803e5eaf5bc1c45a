import { InMemoryNetwork } from "@tutti/ports/bus";
import { expect, test, vi } from "vitest";
import { micros, millis, seconds } from "@tutti/units";
import { VirtualCluster } from "./virtual-cluster.ts";
import type { Asked, VirtualClusterOptions } from "./virtual-cluster-options.ts";

const RESNET = { name: "resnet50", alphaMs: 1.053, betaMs: 5.072, sloMs: 25 };

function serving(options: VirtualClusterOptions = {}): VirtualCluster {
  const cluster = new VirtualCluster(options);
  cluster.addModel(RESNET);
  cluster.run(seconds(2));
  return cluster;
}
const inTime = (asked: readonly Asked[]): number =>
  asked.filter((one) => one.outcomes.some((outcome) => outcome.status === "ok" && outcome.at <= one.deadline)).length /
  asked.length;

/** Checks T1 and T2 for all requests. */
function checkAnswers(asked: readonly Asked[]): void {
  for (const one of asked) {
    expect(one.outcomes.length, `request ${one.value} asked at ${one.at}`).toBe(1);
    const [outcome] = one.outcomes;
    if (outcome?.status === "ok") expect(outcome.value).toBe(Math.fround(one.value));
  }
}

test("answers go out on a connection of their own, on which nothing else does: a reply subject comes from outside", () => {
  const said = new Map<string, Set<string>>();
  const connect = InMemoryNetwork.prototype.connect;
  const spy = vi.spyOn(InMemoryNetwork.prototype, "connect").mockImplementation(function (
    this: InMemoryNetwork,
    options,
  ) {
    const bus = connect.call(this, options);
    const publish = bus.publish.bind(bus);
    bus.publish = (subject, ...rest) => {
      const name = options.name.replace(/#\d+/, ""); // without the number of its process
      if (name.startsWith("ingress")) said.set(name, (said.get(name) ?? new Set()).add(subject.split(".")[0]!));
      return publish(subject, ...rest);
    };
    return bus;
  });
  try {
    const cluster = new VirtualCluster();
    cluster.addModel({ name: "fast", alphaMs: 1, betaMs: 4, sloMs: 50 });
    cluster.run(seconds(2));
    const asked = [...cluster.load("fast", { rate: 200, duration: millis(500), sloMs: 50 }), cluster.ask("nothing")];
    cluster.run(millis(100));
    expect(new Set(asked.map(({ outcomes }) => outcomes[0]?.status))).toEqual(new Set(["ok", "TUTTI_NOT_FOUND"]));
  } finally {
    spy.mockRestore();
  }
  expect(said.get("ingress-answers")).toEqual(new Set(["_INBOX"]));
  expect(said.get("ingress")).not.toContain("_INBOX");
  expect(said.get("ingress-bulk") ?? new Set()).not.toContain("_INBOX");
});

test("a request travels through every actor and comes back with its own output (T1, T2)", () => {
  const cluster = serving();
  const asked = cluster.ask("resnet50", { sloMs: 25 });
  cluster.run(millis(100));
  checkAnswers([asked]);
  expect(asked.outcomes[0]).toMatchObject({ status: "ok", value: 1 });
  expect(asked.outcomes[0]!.at).toBeLessThanOrEqual(asked.deadline);
});

test("2,000 r/s on eight accelerators: nearly all in time, in batches, with the highest ids idle", () => {
  const cluster = serving({ gpus: 8, hop: micros(100) });
  const asked = cluster.load("resnet50", { rate: 2_000, duration: seconds(5), sloMs: 25 });
  cluster.run(seconds(1));
  checkAnswers(asked);
  expect(inTime(asked)).toBeGreaterThan(0.99);
});

test("overload is refused as such, early, and what is accepted is in time (T3)", () => {
  const cluster = serving({ gpus: 2 });
  const asked = cluster.load("resnet50", { rate: 4_000, duration: seconds(3), sloMs: 25 });
  cluster.run(seconds(1));
  checkAnswers(asked);
  const refused = asked.filter((one) => one.outcomes[0]?.status === "TUTTI_OVERLOADED");
  expect(refused.length).toBeGreaterThan(asked.length * 0.3);
  for (const one of refused) expect(one.outcomes[0]!.at).toBeLessThanOrEqual(one.deadline);
});

test("killing the leading ranker loses nothing: its spare grants on (T1, T5)", () => {
  const cluster = serving({ gpus: 4 });
  const before = cluster.load("resnet50", { rate: 500, duration: seconds(1), sloMs: 50 });
  cluster.kill("ranker-0");
  const after = cluster.load("resnet50", { rate: 500, duration: seconds(2), sloMs: 50 });
  cluster.run(seconds(1));
  checkAnswers([...before, ...after]);
  expect(inTime(after)).toBeGreaterThan(0.9);
});

test("killing an executor loses nothing: what can still be met runs elsewhere (T1)", () => {
  const cluster = serving({ gpus: 4, executors: 2 });
  const before = cluster.load("resnet50", { rate: 500, duration: seconds(1), sloMs: 100 });
  cluster.kill("executor-0");
  const after = cluster.load("resnet50", { rate: 500, duration: seconds(2), sloMs: 100 });
  cluster.run(seconds(1));
  checkAnswers([...before, ...after]);
  expect(inTime(after)).toBeGreaterThan(0.9);
});

test("killing a batcher loses nothing: another takes its models under a new term (T1, T5)", () => {
  const cluster = serving({ gpus: 4, batchers: 2 });
  const before = cluster.load("resnet50", { rate: 500, duration: seconds(1), sloMs: 100 });
  cluster.kill("batcher-0");
  cluster.kill("batcher-1");
  cluster.startBatcher("batcher-2");
  const after = cluster.load("resnet50", { rate: 500, duration: seconds(2), sloMs: 100 });
  cluster.run(seconds(1));
  checkAnswers([...before, ...after]);
  expect(inTime(after)).toBeGreaterThan(0.8);
});

test("lost control messages delay requests and lose none (T1)", () => {
  let count = 0;
  const cluster = serving({ gpus: 4, loses: (subject) => subject.includes(".to.") && ++count % 50 === 0 });
  const asked = cluster.load("resnet50", { rate: 500, duration: seconds(4), sloMs: 200 });
  cluster.run(seconds(1));
  checkAnswers(asked);
  expect(inTime(asked)).toBeGreaterThan(0.9);
});

test("one bad row fails alone, and a failed batch is answered with the reason (T1, T8)", () => {
  let armed = false; // warm-up runs first
  const cluster = serving({
    fault: () => (armed ? { kind: "rows", failedRows: [{ row: 0, reason: "NaN" }] } : undefined),
  });
  armed = true;
  const asked = [cluster.ask("resnet50"), cluster.ask("resnet50"), cluster.ask("resnet50")];
  cluster.run(millis(200));
  checkAnswers(asked);
  expect(asked.map((one) => one.outcomes[0]?.status).sort()).toEqual(["TUTTI_INVALID_INPUT", "ok", "ok"]);
});

test("a run that never ends is answered at the deadline (INGRESS-1)", () => {
  let armed = false;
  const cluster = serving({ gpus: 1, fault: () => (armed ? { kind: "hang" } : undefined) });
  armed = true;
  const asked = cluster.ask("resnet50", { sloMs: 40 });
  cluster.run(millis(45));
  checkAnswers([asked]);
  expect(asked.outcomes[0]?.status).toBe("TUTTI_DEADLINE_EXCEEDED");
});

test("equal seeds give equal outcomes to the microsecond (T6)", () => {
  const run = () => {
    const cluster = serving({ gpus: 4, seed: 9 });
    const asked = cluster.load("resnet50", { rate: 1_500, duration: seconds(1), sloMs: 25 });
    cluster.run(seconds(1));
    return asked.map((one) => one.outcomes);
  };
  expect(run()).toEqual(run());
});
