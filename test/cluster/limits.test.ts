/** Limits on a publisher's requests, each met exactly and exceeded by one. A refusal names the limit. */
import type { Bus } from "@tutti/ports/bus";
import {
  CONTENT,
  COST_MAX,
  COST_STEPS_MAX,
  HEADER,
  HEADER_BYTES_MAX,
  ID_LENGTH_MAX,
  NAME_LENGTH_MAX,
  RANK_MAX,
  REQUEST_BYTES_MAX,
  SIZE_HINT_MAX,
  SLO_US_MAX,
  TENSORS_MAX,
  TENSOR_NAME_BYTES_MAX,
  type Tensor,
} from "@tutti/protocol";
import { millis, seconds } from "@tutti/units";
import { encodeTensors, toJson } from "@tutti/wire";
import { expect, test } from "vitest";
import { type EchoAnswer, readEcho } from "../fixtures/actor-cluster/echo-model.ts";
import { VirtualCluster } from "./virtual-cluster.ts";
import type { VirtualClusterOptions } from "./virtual-cluster-options.ts";

const X: Tensor = { name: "x", type: "FP32", dims: [1, 1], data: new Uint8Array(4) };
const message = (...tensors: readonly Tensor[]): Uint8Array => encodeTensors(tensors);

interface Ask {
  readonly subject?: string;
  readonly payload?: Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
  readonly reply?: string;
}

function serving(options: VirtualClusterOptions = {}) {
  const cluster = new VirtualCluster(options);
  cluster.addModel({ name: "m", alphaMs: 1, betaMs: 5, sloMs: 50 });
  cluster.run(seconds(3));
  const bus: Bus = cluster.network.connect({ name: "outside" });
  const send = ({ subject = "infer.m.app", payload = message(X), headers = {}, reply }: Ask): EchoAnswer[] => {
    const answers: EchoAnswer[] = [];
    const inbox = reply ?? bus.newInbox();
    bus.subscribe(inbox, (delivery) => void answers.push(readEcho(delivery)));
    bus.publish(subject, payload, { reply: inbox, headers: { [HEADER.contentType]: CONTENT.binary, ...headers } });
    return answers;
  };
  const ask = (what: Ask): EchoAnswer => {
    const answers = send(what);
    cluster.run(seconds(1));
    expect(answers).toHaveLength(1);
    return answers[0]!;
  };
  return { cluster, send, ask };
}

const json = (tensor: object): Ask => ({
  payload: toJson({ inputs: [tensor] }),
  headers: { [HEADER.contentType]: CONTENT.json },
});

const withId = (id: string): Ask => ({
  payload: toJson({ id, inputs: [{ name: "y", datatype: "FP32", shape: [1, 1], data: [1] }] }),
  headers: { [HEADER.contentType]: CONTENT.json },
});

const costs = (steps: number): string => Array.from({ length: steps }, (_, i) => `${50 * (i + 1)}ms=${i}`).join(",");

/** A request at each limit, and one beyond it. */
const LIMITS: readonly { readonly limit: string; readonly code: string; readonly at: Ask; readonly beyond: Ask }[] = [
  {
    limit: "NAME_LENGTH_MAX",
    code: "TUTTI_INVALID_INPUT",
    at: { subject: `infer.m.${"a".repeat(NAME_LENGTH_MAX)}` },
    beyond: { subject: `infer.m.${"a".repeat(NAME_LENGTH_MAX + 1)}` },
  },
  {
    limit: "HEADER_BYTES_MAX",
    code: "TUTTI_TOO_LARGE",
    at: { headers: { "X-Long": "h".repeat(headerRoom()) } },
    beyond: { headers: { "X-Long": "h".repeat(headerRoom() + 1) } },
  },
  {
    limit: "SLO_US_MAX",
    code: "TUTTI_INVALID_INPUT",
    at: { headers: { [HEADER.slo]: `${SLO_US_MAX}us` } },
    beyond: { headers: { [HEADER.slo]: `${SLO_US_MAX + 1}us` } },
  },
  {
    limit: "COST_STEPS_MAX",
    code: "TUTTI_INVALID_INPUT",
    at: { headers: { [HEADER.costs]: costs(COST_STEPS_MAX) } },
    beyond: { headers: { [HEADER.costs]: costs(COST_STEPS_MAX + 1) } },
  },
  {
    limit: "COST_MAX",
    code: "TUTTI_INVALID_INPUT",
    at: { headers: { [HEADER.costs]: `50ms=${COST_MAX}` } },
    beyond: { headers: { [HEADER.costs]: `50ms=${COST_MAX + 1}` } },
  },
  {
    limit: "SIZE_HINT_MAX",
    code: "TUTTI_INVALID_INPUT",
    at: { headers: { [HEADER.size]: `${SIZE_HINT_MAX}` } },
    beyond: { headers: { [HEADER.size]: `${SIZE_HINT_MAX + 1}` } },
  },
  // Requests within these limits are no input of the model, and are refused for that instead.
  {
    limit: "TENSORS_MAX",
    code: "TUTTI_INVALID_INPUT",
    at: { payload: message(...Array.from({ length: TENSORS_MAX }, (_, i) => ({ ...X, name: `x${i}` }))) },
    beyond: { payload: withCount(message(X), TENSORS_MAX + 1) },
  },
  {
    limit: "RANK_MAX",
    code: "TUTTI_INVALID_INPUT",
    at: json({ name: "x", datatype: "FP32", shape: Array(RANK_MAX).fill(1), data: [1] }),
    beyond: json({ name: "x", datatype: "FP32", shape: Array(RANK_MAX + 1).fill(1), data: [1] }),
  },
  {
    limit: "RANK_MAX",
    code: "TUTTI_INVALID_INPUT",
    at: { payload: message({ ...X, dims: Array<number>(RANK_MAX).fill(1) }) },
    beyond: { payload: withRank(message(X), RANK_MAX + 1) },
  },
  {
    limit: "TENSOR_NAME_BYTES_MAX",
    code: "TUTTI_INVALID_INPUT",
    at: json({ name: "n".repeat(TENSOR_NAME_BYTES_MAX), datatype: "FP32", shape: [1], data: [1] }),
    beyond: json({ name: "n".repeat(TENSOR_NAME_BYTES_MAX + 1), datatype: "FP32", shape: [1], data: [1] }),
  },
  {
    limit: "ID_LENGTH_MAX",
    code: "TUTTI_INVALID_INPUT",
    at: withId("i".repeat(ID_LENGTH_MAX)),
    beyond: withId("i".repeat(ID_LENGTH_MAX + 1)),
  },
  {
    limit: "REQUEST_BYTES_MAX",
    code: "TUTTI_TOO_LARGE",
    at: { payload: new Uint8Array(REQUEST_BYTES_MAX) },
    beyond: { payload: new Uint8Array(REQUEST_BYTES_MAX + 1) },
  },
];

test("a request at each limit is taken for what it is; one beyond is refused, and told the limit", () => {
  const { cluster, ask, send } = serving();
  for (const { limit, code, at, beyond } of LIMITS) {
    // The request with a distant deadline waits for it; the others have their answer.
    const taken = send(at);
    cluster.run(seconds(1));
    expect([limit, ...taken.map(({ text }) => text.includes(limit))].filter(Boolean)).toEqual([limit]);
    const refused = ask(beyond);
    expect([refused.status, refused.text]).toEqual([code, expect.stringContaining(limit) as string]);
  }
  expect(ask({}).status).toBe("ok");
});

test("tensors that say little and stand for more than a request may have are TOO_LARGE, before they are made", () => {
  const { ask } = serving();
  const claim = (elements: number) => json({ name: "x", datatype: "FP64", shape: [elements], data: [] });
  expect(ask(claim(2 ** 31)).status).toBe("TUTTI_INVALID_INPUT"); // its data don't fill its shape
  const many = Math.floor(REQUEST_BYTES_MAX / 8) + 1;
  const dense = { ...json({ name: "x", datatype: "FP64", shape: [many], data: Array<number>(many).fill(0) }) };
  expect(ask(dense)).toMatchObject({
    status: "TUTTI_TOO_LARGE",
    text: expect.stringContaining("REQUEST_BYTES_MAX") as string,
  });
});

test("an application has so many requests in flight at an ingress and no more, and another is served meanwhile", () => {
  const { cluster, send } = serving({ held: { appRequestsMax: 10 }, gpus: 1 });
  const slo = { headers: { [HEADER.slo]: "500ms" } };
  const mine = Array.from({ length: 11 }, () => send({ subject: "infer.m.greedy", ...slo }));
  const other = send({ subject: "infer.m.modest", ...slo });
  cluster.run(seconds(1));
  expect(mine.map(([answer]) => answer?.status)).toEqual([...Array<string>(10).fill("ok"), "TUTTI_OVERLOADED"]);
  expect(mine[10]?.[0]?.text).toContain("APP_REQUESTS_MAX");
  expect(other[0]?.status).toBe("ok");
  const again = send({ subject: "infer.m.greedy", ...slo });
  cluster.run(seconds(1));
  expect(again[0]?.status).toBe("ok");
});

test("the same for the bytes of an application's inputs, as they are held and not as they were sent", () => {
  const { cluster, send } = serving({ held: { appBytesMax: 5 * 8 + 39 }, gpus: 1 });
  const slo = { headers: { [HEADER.slo]: "500ms" } };
  const mine = Array.from({ length: 10 }, () => send({ subject: "infer.m.greedy", ...slo }));
  cluster.run(millis(1_000));
  const statuses = mine.map(([answer]) => answer?.status);
  expect(statuses.filter((status) => status === "ok").length).toBeGreaterThan(0);
  expect(statuses).toContain("TUTTI_OVERLOADED");
  expect(mine.at(-1)?.[0]?.text).toContain("APP_BYTES_MAX");
});

test("names that are no names are refused where the asker may be told, and nobody is told elsewhere", () => {
  const { cluster, ask, send } = serving();
  expect(ask({ subject: "infer.-m.app" })).toMatchObject({ status: "TUTTI_INVALID_INPUT" });
  expect(ask({ subject: `infer.${"m".repeat(900)}.app` }).text.length).toBeLessThan(400);
  for (const reply of [
    "tutti.v1.main.all.batcher",
    "infer.m.elsewhere",
    "$KV.tutti_models.m",
    "_INBOX_ranker.x",
    "_INBOX",
  ]) {
    const answers = send({ reply });
    cluster.run(seconds(1));
    expect([reply, answers.filter(({ status }) => status !== "no-responders").length]).toEqual([reply, 0]);
  }
});

function headerRoom(): number {
  const others =
    "NATS/1.0\r\n\r\n".length + `${HEADER.contentType}: ${CONTENT.binary}\r\n`.length + "X-Long: \r\n".length;
  return HEADER_BYTES_MAX - others;
}
function withCount(bytes: Uint8Array, count: number): Uint8Array {
  new DataView(bytes.buffer).setUint16(4, count, true);
  return bytes;
}
function withRank(bytes: Uint8Array, rank: number): Uint8Array {
  new DataView(bytes.buffer).setUint8(9, rank);
  return bytes;
}
