import { expect, test } from "vitest";
import { decodeTensors } from "@tutti/wire";
import { isRight, readHttpAnswer } from "./answers.ts";
import { choose } from "./choice.ts";
import { figuresOf } from "./figures.ts";
import { nextRate, searchGoodput } from "./goodput-search.ts";
import { labelOf, settingsOf, turnsOf, unsupported } from "./lineup.ts";
import { type LoadReport, arrivals, quantile, wasBottleneck } from "./load-plan.ts";
import { reasonOf } from "./peer-environments.ts";
import { pictureOf } from "./peers-chart.ts";
import { markdownOf, tableOf } from "./peers-table.ts";
import { labelOf as processLabel } from "./process-group.ts";
import { requestOf } from "./requests.ts";
import type { PeersResult, Row } from "./results.ts";
import type { ServedModel } from "./served-models.ts";
import { carriedOf } from "./trials.ts";
import { type SystemName, workloadOf } from "./workloads.ts";

const MODEL: ServedModel = {
  ...{ name: "m", output: "y", batchMax: 4, sloMs: 30 },
  input: { name: "x", datatype: "FP32", shape: [2, 2] },
};
const ROW = [1, 2, 3, 4];

test("an answer is read when all of it is there, and not before", () => {
  const whole = Buffer.from("HTTP/1.1 503 Nope\r\nContent-Length: 4\r\nX: y\r\n\r\nbody");
  for (let bytes = 0; bytes < whole.byteLength; bytes++)
    expect(readHttpAnswer(whole.subarray(0, bytes))).toBeUndefined();
  const read = readHttpAnswer(Buffer.concat([whole, Buffer.from("HTTP/1.1 200")]))!;
  expect([read.isOk, read.bytes, read.body.toString()]).toEqual([false, whole.byteLength, "body"]);
});

test("right and wrong numbers are told apart in every form of an answer", () => {
  const floats = Buffer.from(Float32Array.from([0.5, -1, 2]).buffer);
  const head = '{"outputs":[{"shape":[1,3]}]}';
  const tensors = Buffer.alloc(40);
  tensors.write("TTN1");
  tensors.writeUInt16LE(1, 4);
  tensors.set([10, 1, 1, 0, 12, 0, 0, 0, 3, 0, 0, 0, 121], 8);
  floats.copy(tensors, 24);
  const bodies = [
    ["json", '{"outputs":[{"shape":[1,3],"data":[0.5, -1,2]}]}', Infinity],
    ["json", "[[0.5, -1.0, 2.0]]", Infinity],
    ["oip-binary", Buffer.concat([Buffer.from(head), floats]), head.length],
    ["oip-binary", '{"outputs":[{"shape":[1,3],"data":[0.5,-1,2]}]}', Infinity],
    ["raw", floats, Infinity],
    ["tensors", tensors, Infinity],
  ] as const;
  for (const [form, text, rawAt] of bodies) {
    const body = Buffer.from(text);
    const answer = { isOk: true, body, rawAt: Math.min(rawAt, body.byteLength) };
    expect([form, isRight(answer, form, [0.5, -1, 2])]).toEqual([form, true]);
    expect([form, isRight(answer, form, [0.5, -1, 2.1])]).toEqual([form, false]);
    expect([form, isRight({ ...answer, body: Buffer.alloc(0), rawAt: 0 }, "raw", [0.5])]).toEqual([form, false]);
  }
});

test("every form of a request holds the row and says how long it is", () => {
  for (const form of ["oip-json", "oip-binary", "raw", "rows"] as const) {
    const request = requestOf(MODEL, ROW, form, "/infer");
    const bodyAt = request.indexOf("\r\n\r\n") + 4;
    const told = /Content-Length: (\d+)\r\n\r\n/.exec(request.toString("latin1"));
    expect(Number(told?.[1])).toBe(request.byteLength - bodyAt);
  }
  expect(requestOf(MODEL, ROW, "rows", "/").toString()).toContain('{"rows":[[[1,2],[3,4]]]}');
  const message = requestOf(MODEL, ROW, "tensors", "");
  const payload = new Uint8Array(message.subarray(message.indexOf("\r\n\r\n") + 4));
  const [tensor] = decodeTensors(payload);
  expect([tensor?.name, tensor?.dims, tensor?.data.byteLength]).toEqual(["x", [1, 2, 2], 16]);
});

test("the search finds what each contestant carries, one trial of each in turn, and forgives one bad second", async () => {
  const carries = new Map([
    ["fast", 7_300],
    ["slow", 130],
    ["endless", Infinity],
    ["nothing", 0],
  ]);
  const firsts = new Map([...carries.keys()].map((name) => [name, 2_000]));
  const trials: string[] = [];
  let hiccups = 1;
  let stalls = 2;
  const found = await searchGoodput(firsts, 16_000, async (name, perSecond) => {
    trials.push(name);
    if (name === "fast" && hiccups-- > 0) return Promise.resolve("failed");
    if (name === "endless" && stalls-- > 0) return Promise.resolve("disturbed");
    return Promise.resolve(perSecond <= carries.get(name)! ? "held" : "failed");
  });
  expect([found.get("endless")?.goodput, found.get("nothing")?.goodput]).toEqual([16_000, 0]);
  for (const name of ["fast", "slow"]) {
    const { goodput, failedAt } = found.get(name)!;
    expect(goodput).toBeLessThanOrEqual(carries.get(name)!);
    expect(failedAt).toBeGreaterThan(carries.get(name)!);
    expect(failedAt / goodput).toBeLessThan(1.11);
  }
  expect(trials.slice(0, 5)).toEqual(["fast", "slow", "endless", "nothing", "fast"]);
  const cut = await searchGoodput(
    firsts,
    16_000,
    () => Promise.resolve("held"),
    () => true,
  );
  expect(cut.get("fast")).toEqual({ goodput: 2_000, failedAt: Infinity });
  expect(nextRate({ low: 0, high: 20, first: 20, steps: 3 }, 16_000)).toBeUndefined();
});

test("a rising rate shows what is carried: past a stall of the machine, and not up to a lucky moment", () => {
  const window = (perSecond: number, share: number) => ({ perSecond, offered: 100, good: 100 * share });
  const rates = [100, 127, 161, 205, 260, 330, 420, 533, 677];
  const rising = (shares: readonly number[]) => rates.map((rate, i) => window(rate, shares[i]!));
  expect(carriedOf(rising([1, 1, 0.2, 1, 1, 1, 0, 0, 0]))).toBe(330);
  expect(carriedOf(rising([1, 1, 1, 0.2, 0, 0, 0, 1, 0]))).toBe(169);
  expect(carriedOf(rising([0, 0, 0, 0, 0, 0, 0, 0, 0]))).toBe(0);
  expect(carriedOf(rising(rates.map(() => 1)))).toBe(677);
});

test("arrivals come at the rate that is asked for, rising too, and are the same for everybody", () => {
  const until = (plan: Parameters<typeof arrivals>[0], ms: number): number[] => {
    const all: number[] = [];
    for (const at of arrivals(plan)) {
      if (at > ms) return all;
      all.push(at);
    }
    return all;
  };
  const steady = { perSecond: 2_000, seconds: 2, seed: 7 };
  expect(Math.abs(until(steady, 2_000).length - 4_000)).toBeLessThan(250);
  expect(until(steady, 2_000)).toEqual(until(steady, 2_000));
  const rising = until({ perSecond: 100, toPerSecond: 10_000, seconds: 2, seed: 7 }, 2_000);
  const firstHalf = rising.filter((at) => at <= 1_000).length;
  expect(firstHalf / rising.length).toBeLessThan(0.15);
});

test("a generator was the bottleneck where it lagged and its thread was busy, not where the machine stood still", () => {
  const report = (lagP99Ms: number, busyShare: number) => ({ lagP99Ms, busyShare }) as LoadReport;
  expect(wasBottleneck(report(11, 0.95), 30)).toBe(true);
  expect(wasBottleneck(report(11, 0.5), 30)).toBe(false);
  expect(wasBottleneck(report(9, 0.95), 30)).toBe(false);
});

test("peers far behind are left out, and a second setting goes on where it is near the best", () => {
  const [none, one, five] = workloadOf("mlp").settings;
  const { finalists, behind } = choose([
    { name: "bare", setting: none!, carried: undefined },
    { name: "mosec", setting: none!, carried: 5_000 },
    { name: "mosec", setting: one!, carried: 7_000 },
    { name: "mosec", setting: five!, carried: 6_000 },
    { name: "pytriton", setting: one!, carried: 4_000 },
    { name: "pytriton", setting: five!, carried: 900 },
    { name: "ray", setting: one!, carried: 100 },
    { name: "ray", setting: five!, carried: 120 },
  ]);
  expect(finalists.map(({ name, setting }) => [name, setting.waitMs])).toEqual([
    ["bare", 0],
    ["mosec", 1],
    ["mosec", 5],
    ["pytriton", 1],
  ]);
  expect(behind.map(({ name, carried }) => [name, carried])).toEqual([["ray", 120]]);
});

test("every peer has three settings, Tutti none, and who polls while idle is started alone", () => {
  for (const name of ["mlp", "table2"] as const) {
    const workload = workloadOf(name);
    for (const peer of ["mosec", "litserve", "bentoml", "pytriton", "ray"] as const)
      expect(new Set(settingsOf(peer, workload).map((setting) => labelOf(peer, setting))).size).toBe(3);
    expect(settingsOf("tutti", workload).map((setting) => labelOf("tutti", setting))).toEqual([undefined]);
  }
  const entrants = (["bare", "ray", "mosec", "litserve"] as const).map((name) => ({ name, setting: NO_WAIT }));
  const names = turnsOf(entrants).map((group) => group.map(({ name }) => name));
  expect(names).toEqual([["bare", "mosec"], ["ray"], ["litserve"]]);
  expect(unsupported("litserve", workloadOf("picture"))).toContain("JSON");
  expect(unsupported("litserve", workloadOf("mlp"))).toBeUndefined();
});
const NO_WAIT = workloadOf("mlp").settings[0]!;

test("processes are called by what they run", () => {
  expect(processLabel(["/opt/bin/node", "--flag=1", "/x/services/node/src/main.ts", "executor"])).toBe("node executor");
  expect(processLabel(["/venv/bin/python3.11", "-u", "mosec_server.py", "--port"])).toBe("mosec_server.py");
  expect(processLabel(["ray::ProxyActor", ""])).toBe("ray::ProxyActor");
  expect(processLabel([])).toBe("?");
});

test("a failed installation is told by pip's own error", () => {
  const error = Object.assign(new Error("Command failed: pip"), { stderr: "ERROR: No matching distribution\nhint\n" });
  expect(reasonOf(error)).toBe("ERROR: No matching distribution");
  expect(reasonOf(Object.assign(error, { killed: true }))).toContain("took more than");
});

const row = (system: SystemName, rest: Partial<Row>): Row => ({ system, ...rest });
const latency = (p50Ms: number, p99Ms: number) => ({ p50Ms, p99Ms, requests: 80 });
const RESULT: PeersResult = {
  ...{ cores: 2, node: "v24", seconds: 4, tookSeconds: 1_500 },
  workloads: [
    {
      ...{ workload: "mlp", title: "mlp", sloMs: 30, skipped: { ray: "not here" } },
      tried: [{ system: "mosec", setting: "wait 1 ms", carried: 900 }],
      rows: [
        row("bare", { goodput: 2_000, at70: { ...latency(2, 9), good: 1 } }),
        row("tutti", { goodput: 1_500, failedAt: 3_000, bottlenecks: 2 }),
        row("mosec", { goodput: 1_000, setting: "wait 1 ms" }),
        row("pytriton", { goodput: 1_400, isEstimate: true }),
      ],
    },
    {
      ...{ workload: "share", title: "share", sloMs: 30, skipped: {}, tried: [] },
      rows: [
        row("tutti", {
          share: [
            { share: 0.1, perSecond: 150, good: 0.9, bareGood: 0.98 },
            { share: 0.3, perSecond: 450, good: 0.997, bareGood: 1 },
          ],
        }),
      ],
    },
    {
      ...{ workload: "cost", title: "cost", sloMs: 30, skipped: {}, tried: [] },
      rows: [
        row("bare", { cost: [{ perSecond: 300, cpuUs: 400, good: 1, byProcess: { bare: 400 }, isOverloaded: false }] }),
        row("tutti", { cost: [{ perSecond: 300, cpuUs: 600, good: 0.1, byProcess: { up: 600 }, isOverloaded: true }] }),
      ],
    },
  ],
};

test("the figures are ratios to the best peer and to the bare server; a noisy minute and an overload count for nothing", () => {
  const found = new Map(figuresOf(RESULT).map(({ what, values }) => [what, values]));
  expect(found.get("mlp: goodput ÷ best peer's")).toEqual({ tutti: 1.5 });
  expect(found.get("mlp: goodput ÷ bare server's")).toEqual({ tutti: 0.75 });
  expect([...found].find(([what]) => what.startsWith("least in time"))?.[1]).toEqual({ tutti: 99.7 });
  expect([...found.keys()].some((what) => what.startsWith("processor time"))).toBe(false);
});

test("tables and picture show every system, and survive what is missing", () => {
  const [text, markdown, svg] = [tableOf(RESULT), markdownOf(RESULT), pictureOf(RESULT)];
  for (const shown of [
    "ray was skipped: not here",
    "about 1400",
    "1500, cut short before 3000",
    "overloaded",
    "bottleneck in 2 trials",
  ]) {
    expect(text).toContain(shown);
    expect(markdown).toContain(shown);
  }
  for (const name of ["bare", "tutti", "mosec", "pytriton", "mlp (r/s)"]) expect(svg).toContain(name);
  expect(quantile([], 0.5)).toBeNaN();
  expect(tableOf({ ...RESULT, workloads: [] })).toContain("Figures");
});
