import { createServer } from "node:net";
import { once } from "node:events";
import type { Answer } from "@tutti/bench";
import { micros } from "@tutti/units";
import { expect, test } from "vitest";
import { HttpNodes } from "./http-nodes.ts";
import { type Measured, boundsOf, crossingOf, rowsOf, tableOf } from "./scale-table.ts";

const measured = (nodes: number, perSecond: number, cpuUs: number, more: Partial<Measured> = {}): Measured => ({
  ...{ nodes, perSecond, offered: 100, good: 100, p50Ms: 8, p99Ms: 20 },
  cpuUs: { nodes: 60 * cpuUs, executors: 30 * cpuUs, nats: 10 * cpuUs, rest: 0 },
  ...{ batches: 50, items: 100, natsMessages: 20, natsBytes: 4_000, linkMessages: 300, linkBytes: 60_000 },
  wasBottleneck: false,
  ...more,
});

test("costs of all rounds are added up, and compared with the fewest nodes at the same rate and at the same rate a node", () => {
  const rows = rowsOf([
    measured(1, 100, 1_000),
    measured(1, 200, 500),
    measured(1, 200, 700),
    measured(2, 200, 900),
    measured(2, 100, 1_500),
  ]);
  expect(
    rows.map(({ perSecond, nodes, cpuUs, ratio, ratioANode }) => [perSecond, nodes, cpuUs, ratio, ratioANode]),
  ).toEqual([
    [100, 1, 1_000, 1, 1],
    [100, 2, 1_500, 1.5, undefined],
    [200, 1, 600, 1, 1],
    [200, 2, 900, 1.5, 0.9],
  ]);
  expect(rows[3]).toMatchObject({ meanBatch: 2, natsMessages: 0.2, linkMessages: 3, linkBytes: 600, goodShare: 1 });
  expect(rows[3]?.parts).toEqual({ nodes: 540, executors: 270, nats: 90, rest: 0 });
});

test("bounds are reckoned from the highest rate that the fewest nodes carry", () => {
  const rows = rowsOf([
    measured(1, 100, 1_000),
    measured(4, 100, 2_000),
    measured(1, 200, 100, { good: 90 }),
    measured(4, 200, 100),
  ]);
  const bounds = boundsOf(rows, { grantsPerSecond: 1_000_000, networkGbit: 10 });
  expect(bounds.map(({ requestsPerSecond }) => requestsPerSecond)).toEqual([5_000, 2_000_000, 1_953_125, 833]);
  const text = tableOf({ sloMs: 50, rows, idle: [{ nodes: 1, corePercent: 3, natsMessagesPerSecond: 60 }], bounds });
  expect(text).toContain("200 *  1");
  expect(text).toContain("idle, 1 node: 3 % of a core, 60 NATS messages a second");
  expect(boundsOf(rowsOf([measured(1, 100, 1, { good: 0 })]), { grantsPerSecond: 1, networkGbit: 1 })).toEqual([]);
});

test("of the ways through two nodes the one with more messages is the one across", () => {
  const ways = [
    { cpuUs: 900, linkMessages: 7 },
    { cpuUs: 800, linkMessages: 4 },
  ];
  expect(
    crossingOf([
      { perSecond: 400, ways },
      { perSecond: 400, ways: [...ways].reverse() },
    ]),
  ).toEqual({
    ...{ perSecond: 400, localUs: 800, remoteUs: 900, localMessages: 4, remoteMessages: 7 },
  });
  expect(crossingOf([])).toBeUndefined();
});

test("a request goes to its stream's node, answers are told apart, and one that loses its connection fails", async () => {
  const asked: string[] = [];
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.on("data", (chunk) => {
      asked.push(chunk.toString());
      if (chunk.toString() === "gone") socket.destroy();
      else socket.write(`HTTP/1.1 ${chunk.toString() === "bad" ? 503 : 200} x\r\nContent-Length: 2\r\n\r\n{}`);
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { readonly port: number };
  const target = new HttpNodes(["good", "bad", "gone"].map((text) => ({ port, request: Buffer.from(text) })));
  const answers: [number, Answer["outcome"]][] = [];
  const all = new Promise<void>((resolve) =>
    target.open((token, { outcome }) => {
      answers.push([token, outcome]);
      if (answers.length === 3) resolve();
    }),
  );
  for (const token of [0, 1, 2]) target.send({ token, stream: token, slo: micros(1) });
  await all;
  expect(answers.sort(([a], [b]) => a - b)).toEqual([
    [0, "ok"],
    [1, "HTTP_REFUSED"],
    [2, "HTTP_FAILED"],
  ]);
  expect(asked.sort()).toEqual(["bad", "gone", "good"]);
  target.close();
  server.close();
});
