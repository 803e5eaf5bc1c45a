/**
 * Whole actors in virtual time, fed with mutations of their messages. No message from outside affects other clients
 * (T8). From inside a well-formed false message may be believed for a while: no actor stops, no request gets a wrong or
 * a second answer (T1, T2), and service comes back.
 */
import type { Bus, Delivery } from "@tutti/ports/bus";
import { BUCKET, CONTENT, HEADER, PLACEMENT_KEY } from "@tutti/protocol";
import { Prng, micros, millis, seconds } from "@tutti/units";
import { encodeRequest, toJson } from "@tutti/wire";
import { expect, test } from "vitest";
import { VirtualCluster } from "../cluster/virtual-cluster.ts";
import { mutated, mutatedValue } from "./mutation.ts";

interface Heard {
  readonly subject: string;
  readonly payload: Uint8Array;
  readonly headers: Readonly<Record<string, string>>;
}

const NAMES = Object.values(HEADER);
const headersOf = (delivery: Delivery): Record<string, string> =>
  Object.fromEntries(
    NAMES.flatMap((name) => (delivery.header(name) === undefined ? [] : [[name, delivery.header(name)!]])),
  );

/** A cluster that serves, the recorded messages of its actors, and the exceptions in any of them. */
function recorded(seed: number) {
  const cluster = new VirtualCluster({ seed, executors: 2, gpus: 2, batchers: 2 });
  cluster.addModel({ name: "m", alphaMs: 1, betaMs: 3, sloMs: 50 });
  cluster.addModel({ name: "other", alphaMs: 1, betaMs: 3, sloMs: 50 });
  const { faults } = cluster;
  cluster.run(seconds(2));
  const heard: Heard[] = [];
  const tap: Bus = cluster.network.connect({ name: "tap" });
  const listening = tap.subscribe(">", (delivery) => {
    const { subject, payload } = delivery;
    if (!subject.startsWith("_INBOX"))
      heard.push({ subject, payload: new Uint8Array(payload), headers: headersOf(delivery) });
  });
  cluster.load("m", { rate: 200, duration: millis(500), sloMs: 50 });
  cluster.run(seconds(1));
  listening.stop();
  return { cluster, faults, heard, enemy: cluster.network.connect({ name: "enemy", inboxPrefix: "_INBOX.enemy" }) };
}

/** Sends requests among and after bad messages, 20 ms apart; `send` is called several times between two. */
function among(cluster: VirtualCluster, count: number, send: () => void) {
  const before = cluster.asked.length;
  for (let i = 0; i < count; i++) {
    cluster.ask(i % 2 === 0 ? "m" : "other", { sloMs: 60 });
    for (let k = 0; k < 10; k++) {
      send();
      cluster.run(micros(2_000));
    }
  }
  cluster.run(seconds(1));
  return cluster.asked.slice(before);
}

const outcomesOf = (asked: readonly { readonly outcomes: readonly { readonly status: string }[] }[]): string[] =>
  asked.map(({ outcomes }) => outcomes.map(({ status }) => status).join("+"));

const STRANGE_HEADERS = [
  "",
  "-1",
  "1e999",
  "25",
  "NaN",
  "25ms",
  "0",
  "x".repeat(3_000),
  "application/json; a=b",
  "\u0000",
  "Grüße",
];
const EXTERNAL = [
  "infer.m.app",
  "infer.other.app",
  "infer.none.app",
  "infer.m.-",
  "cancel.app",
  "$SRV.PING",
  "$SRV.INFO",
  "$SRV.STATS.ingress",
];
const REPLIES = [
  undefined,
  "_INBOX.enemy.1",
  "tutti.v1.main.all.batcher",
  "infer.m.app",
  "_INBOX",
  "$SRV.PING",
  "_INBOX.enemy.>",
];

test("whatever comes on subjects that anybody may use, every other request is served, and nothing is thrown", () => {
  const { cluster, faults, heard, enemy } = recorded(3);
  const prng = new Prng(5);
  const pick = <T>(list: readonly T[]): T => list[prng.nextInt(list.length)]!;
  const requests = heard.filter(({ subject }) => subject.startsWith("infer."));
  const body = { inputs: [{ name: "x", datatype: "FP32", shape: [1, 1], data: [1] }] };
  const answers: unknown[] = [];
  enemy.subscribe("_INBOX.enemy.>", ({ payload }) => void answers.push(payload));
  const asked = among(cluster, 40, () => {
    const { payload, headers } = pick(requests);
    const isJson = prng.nextInt(3) === 0;
    const reply = pick(REPLIES);
    const changed = isJson ? toJson(mutatedValue(body, prng)) : mutated(payload, pick(heard).payload, prng);
    const form = isJson ? { [HEADER.contentType]: CONTENT.json } : headers;
    const extra = prng.nextInt(2) === 0 ? {} : { [pick(NAMES)]: pick(STRANGE_HEADERS) };
    enemy.publish(pick(EXTERNAL), changed, { ...(reply !== undefined && { reply }), headers: { ...form, ...extra } });
  });
  expect(faults).toEqual([]);
  expect(new Set(outcomesOf(asked))).toEqual(new Set(["ok"]));
  expect(asked.every(({ value, outcomes }) => outcomes[0]?.value === value)).toBe(true);
  expect(answers.length).toBeGreaterThan(40); // those whose reply subject was the enemy's own were answered
});

test("a request with any of the headers mutated is answered once, by a typed error or a result", () => {
  const { cluster, faults, enemy } = recorded(4);
  const tensor = { name: "x", type: "FP32", dims: [1, 1], data: new Uint8Array(4) } as const;
  const payload = encodeRequest("binary", { inputs: [tensor] });
  const answers: (readonly [string, string])[] = [];
  let sent = 0;
  for (const name of NAMES)
    for (const value of STRANGE_HEADERS) {
      const reply = `_INBOX.enemy.${sent}`;
      enemy.subscribe(reply, (delivery) => void answers.push([reply, delivery.header(HEADER.errorCode) ?? "ok"]));
      const headers = { [HEADER.contentType]: CONTENT.binary, [HEADER.slo]: "50ms", [name]: value };
      if (enemy.publish("infer.m.app", payload, { reply, headers })) sent++;
      cluster.run(millis(1));
    }
  cluster.run(seconds(2));
  expect(sent).toBeGreaterThan(100);
  expect(new Set(answers.map(([reply]) => reply)).size).toBe(sent);
  expect(answers).toHaveLength(sent);
  expect(answers.filter(([, code]) => code === "500")).toEqual([]);
  expect(faults).toEqual([]);
});

test.each([1, 2, 3])(
  "mutated messages of actors stop nobody, and nobody gets a wrong or a second answer (seed %i)",
  (seed) => {
    const { cluster, faults, heard, enemy } = recorded(seed);
    const prng = new Prng(seed);
    const inside = heard.filter(({ subject }) => subject.startsWith("tutti."));
    expect(inside.length).toBeGreaterThan(100);
    const asked = among(cluster, 30, () => {
      const { subject, payload } = inside[prng.nextInt(inside.length)]!;
      enemy.publish(subject, mutated(payload, inside[prng.nextInt(inside.length)]!.payload, prng));
    });
    expect(faults).toEqual([]);
    for (const { value, outcomes } of asked) {
      expect(outcomes).toHaveLength(1);
      expect(outcomes[0]?.status === "ok" ? outcomes[0].value : value).toBe(value);
    }
    cluster.run(seconds(3));
    const later = among(cluster, 20, () => undefined);
    expect(new Set(outcomesOf(later))).toEqual(new Set(["ok"]));
  },
);

test("entries of the store that can't be read, or say what no writer of ours says, stop nobody", () => {
  const { cluster, faults } = recorded(7);
  const prng = new Prng(11);
  const put = (bucket: string, key: string, value: Uint8Array): void =>
    void cluster.store.put(bucket, key, value, () => undefined);
  const spec = { name: "bad", number: 9, version: "1", engine: "emulated", slo: 50_000, batchSizeMax: 8, patience: 1 };
  const whole = {
    ...spec,
    inputs: [],
    outputs: [],
    constants: [],
    axes: {},
    buckets: [{}],
    profile: [[{ batchSize: 1, latency: 1 }]],
  };
  const status = {
    name: "bad",
    number: 9,
    version: "1",
    state: "ready",
    reason: "",
    profiles: [],
    means: [],
    executorTypes: [],
  };
  let epoch = 0;
  const asked = among(cluster, 30, () => {
    const placement = {
      ...{ epoch: ++epoch, madeAt: 1, gpus: [{ gpu: 0, subCluster: "main" }] },
      models: [1, 2].map((number) => ({ number, subCluster: "main", next: "s1" })),
    };
    put(BUCKET.plan, PLACEMENT_KEY, toJson(mutatedValue(placement, prng)));
    put(
      BUCKET.models,
      "bad",
      prng.nextInt(3) === 0 ? mutated(toJson(whole), toJson(status), prng) : toJson(mutatedValue(whole, prng)),
    );
    put(BUCKET.profiles, "bad", toJson(mutatedValue(status, prng)));
    put(BUCKET.leases, "model.9", toJson(mutatedValue({ batcher: 5 }, prng)));
    put(BUCKET.leases, `model.${prng.nextInt(2) === 0 ? "x" : "-1"}`, toJson({ batcher: 5 }));
  });
  expect(faults).toEqual([]);
  // Some of these can be loaded, which blocks an accelerator and may make other requests miss their deadline, and
  // nothing worse.
  for (const { value, outcomes } of asked) {
    expect(outcomes).toHaveLength(1);
    expect(outcomes[0]?.status === "ok" ? outcomes[0].value : value).toBe(value);
  }
  // A placement that can be parsed is followed, whatever it contains.
  cluster.store.delete(BUCKET.plan, PLACEMENT_KEY, () => undefined);
  cluster.run(seconds(1));
  expect(new Set(outcomesOf(among(cluster, 20, () => undefined)))).toEqual(new Set(["ok"]));
});
