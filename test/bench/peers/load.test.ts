/** The load generator and its transports against servers that misbehave as real ones do. */
import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, type Server, type Socket, createServer } from "node:net";
import { afterEach, expect, test } from "vitest";
import type { Answer } from "./answers.ts";
import { HttpPool } from "./http-pool.ts";
import { runLoad } from "./load-generator.ts";
import type { LoadKind, LoadPlan } from "./load-plan.ts";
import { NatsLink } from "./nats-link.ts";
import { ProcessGroup } from "./process-group.ts";

const servers: Server[] = [];
const sockets = new Set<Socket>();
afterEach(() => {
  for (const socket of sockets) socket.destroy();
  for (const server of servers.splice(0)) server.close();
});

async function listening(server: Server): Promise<number> {
  servers.push(server);
  server.on("connection", (socket: Socket) => sockets.add(socket));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

interface Told {
  readonly request: string;
  readonly answer: Answer | "lost";
}

function poolFor(port: number): { readonly pool: HttpPool<string>; next(): Promise<Told> } {
  const told: Told[] = [];
  let wake = (): void => undefined;
  const tell = (one: Told): void => {
    told.push(one);
    wake();
  };
  const pool = new HttpPool<string>({
    port,
    bytesOf: (request) => Buffer.from(request),
    events: {
      answered: (request, answer) => tell({ request, answer }),
      lost: (request) => tell({ request, answer: "lost" }),
    },
  });
  return {
    pool,
    next: async () => {
      if (told.length === 0) await new Promise<void>((resolve) => (wake = resolve));
      return told.shift()!;
    },
  };
}

test("an answer that nothing waits for is ignored, and its connection is not used again", async () => {
  const connections: Socket[] = [];
  const server = createServer((socket) => {
    connections.push(socket);
    socket.on("data", () => socket.write(OK));
  });
  const { pool, next } = poolFor(await listening(server));
  pool.send("first");
  expect((await next()).request).toBe("first");
  const closed = once(connections[0]!, "close");
  connections[0]!.write("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n");
  await closed;
  pool.send("second");
  const { request, answer } = await next();
  expect([request, answer !== "lost" && answer.isOk]).toEqual(["second", true]);
  expect([connections.length, pool.sockets]).toEqual([2, 1]);
  pool.close();
});

test("a request under way on a connection that breaks is lost, and only that one", async () => {
  const server = createServer((socket) => {
    socket.on("data", (data) => (data.toString() === "break" ? socket.destroy() : socket.write(OK)));
  });
  const { pool, next } = poolFor(await listening(server));
  pool.send("break");
  expect(await next()).toEqual({ request: "break", answer: "lost" });
  pool.send("go on");
  expect((await next()).request).toBe("go on");
  pool.close();
});

test("over NATS each answer finds its request, in pieces too, and an error is not an answer", async () => {
  const [withError, plain] = ["NATS/1.0\r\nNats-Service-Error-Code: 503\r\n\r\n", "NATS/1.0\r\nA: b\r\n\r\n"];
  const server = createServer((socket) => {
    socket.write("INFO {}\r\nPING\r\n");
    let received = "";
    socket.on("data", (data) => {
      received += data.toString();
      const replies = [...received.matchAll(/HPUB infer\.m\.bench (\S+) 12 17\r\nNATS\/1\.0\r\n\r\nhello\r\n/g)];
      if (replies.length < 3 || !received.includes("PONG")) return;
      const [a, b, c] = replies.map(([, reply]) => reply!);
      const all = [
        `HMSG ${c} 1 ${withError.length} ${withError.length}\r\n${withError}\r\n`,
        `MSG ${a} 1 4\r\nfor1\r\nHMSG ${b} 1 ${plain.length} ${plain.length + 4}\r\n${plain}for2\r\n`,
      ].join("");
      for (const byte of all) socket.write(byte);
    });
  });
  const answers = new Map<number, string>();
  const port = await listening(server);
  await new Promise<void>((resolve) => {
    const link = new NatsLink<number>({
      port,
      messageOf: () => ({ subject: "infer.m.bench", headerBytes: 12, bytes: Buffer.from("NATS/1.0\r\n\r\nhello") }),
      events: {
        lost: () => undefined,
        answered: (request, { isOk, body }) => {
          answers.set(request, `${isOk} ${body.toString()}`);
          if (answers.size === 3) {
            link.close();
            resolve();
          }
        },
      },
    });
    for (const request of [1, 2, 3]) link.send(request);
  });
  expect([answers.get(1), answers.get(2), answers.get(3)]).toEqual(["true for1", "true for2", "false "]);
});

const kind = (name: string, value: number): LoadKind => ({
  ...{ name, form: "json", expected: [[value]] },
  requests: [Buffer.from(`GET /${name} HTTP/1.1\r\nHost: x\r\n\r\n`).toString("base64")],
});

const planFor = (port: number, rest: Partial<LoadPlan>): LoadPlan => ({
  ...{ transport: "http", port, perSecond: 400, seconds: 0.5, sloMs: 5_000, seed: 7, giveUp: "never" },
  kinds: [kind("one", 1), kind("two", 2)],
  ...rest,
});

test("a trial counts every request once, by kind, and sees wrong answers", async () => {
  const server = createHttpServer((request, response) => {
    const body = `{"outputs":[{"data":[${request.url === "/one" ? 1 : 2}]}]}`;
    response.writeHead(200, { "content-length": body.length }).end(body);
  });
  const port = await listening(server);
  const right = await runLoad(planFor(port, {}));
  expect(right.offered).toBeGreaterThan(120);
  expect([right.good, right.lost, right.wrong]).toEqual([right.offered, 0, 0]);
  expect(right.latenciesMs).toHaveLength(right.offered);
  const { one, two } = right.byKind;
  expect(one!.offered + two!.offered).toBe(right.offered);
  expect(Math.abs(one!.offered / right.offered - 0.5)).toBeLessThan(0.15);
  const wrong = await runLoad(planFor(port, { kinds: [kind("one", 1.5)] }));
  expect(wrong.wrong).toBeGreaterThan(0);
});

test("a trial that can't be good any more is given up, and what was never answered is lost", async () => {
  const port = await listening(createServer(() => undefined));
  const report = await runLoad(planFor(port, { sloMs: 20, seconds: 30, giveUp: "missed" }));
  expect([report.gaveUp, report.good, report.lost]).toEqual([true, 0, report.offered]);
  expect(report.offered).toBeLessThan(1_000);
});

test("a group of processes is told by its root: processor time, and memory", () => {
  const group = new ProcessGroup(process.pid);
  const before = group.usage().cpuUs;
  for (const end = process.cpuUsage().user + 40_000; process.cpuUsage().user < end;);
  expect(group.usage().cpuUs - before).toBeGreaterThanOrEqual(20_000);
  expect(group.living()[0]).toBe(process.pid);
  expect(group.memory().bytes).toBeGreaterThan(10e6);
});
