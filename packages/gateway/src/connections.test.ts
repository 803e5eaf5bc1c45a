import { once } from "node:events";
import { type IncomingMessage, type Server, type ServerResponse, get } from "node:http";
import { type Socket, connect } from "node:net";
import { afterEach, expect, test } from "vitest";
import { CONNECTIONS_MAX, Connections, limitsOfProcess } from "./connections.ts";
import { boundedServer } from "./http/bounded-server.ts";
import { listen } from "./listening.ts";

let server: Server | undefined;
const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
  server?.closeAllConnections();
  server?.close();
});

const LIMITS = { all: 12, ofAddress: 8 };
type Handle = (request: IncomingMessage, response: ServerResponse) => void;
async function serving(handle: Handle = (_, response) => void response.end("ok")): Promise<number> {
  server = boundedServer(handle, { limits: LIMITS });
  return listen(server, "127.0.0.1", { port: 0 });
}
async function open(port: number, localAddress: string, text = ""): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1", localAddress });
  socket.on("error", () => undefined);
  sockets.push(socket);
  await once(socket, "connect");
  if (text !== "") socket.write(text);
  return socket;
}
const probe = (port: number, localAddress: string): Promise<number | string> =>
  new Promise((resolve) => {
    get({ port, host: "127.0.0.1", localAddress, agent: false, timeout: 1_000 }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    })
      .on("error", (error) => resolve((error as NodeJS.ErrnoException).code ?? "?"))
      .on("timeout", () => resolve("late"));
  });
const settled = (): Promise<unknown> => new Promise((resolve) => setTimeout(resolve, 50));

test.each([
  ["say nothing", ""],
  ["send half a head", "GET / HTTP/1.1\r\nHost: a\r\n"],
  ["send half a body", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1234"],
])("clients that %s keep no probe from its answer, from their own address or another", async (_, text) => {
  const port = await serving((request, response) => {
    if (request.method === "GET") response.end("ok");
  });
  for (let i = 0; i < 40; i++) await open(port, `127.0.0.${2 + (i % 3)}`, text);
  await settled();
  expect(await probe(port, "127.0.0.2")).toBe(200);
  expect(await probe(port, "127.0.0.9")).toBe(200);
  const count = await new Promise((resolve) => server!.getConnections((__, open) => resolve(open)));
  expect(count).toBeLessThanOrEqual(LIMITS.all);
});

test("who waits for our answer keeps its connection, and beyond them newcomers are closed", async () => {
  const waiting: ServerResponse[] = [];
  const port = await serving((_, response) => void waiting.push(response));
  const clients: Socket[] = [];
  for (let i = 0; i < LIMITS.ofAddress; i++)
    clients.push(await open(port, "127.0.0.2", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  while (waiting.length < LIMITS.ofAddress) await settled();
  expect(await probe(port, "127.0.0.2")).toBe("ECONNRESET");
  expect(clients.some((socket) => socket.closed)).toBe(false);
  // Another address still gets in, and an answered connection makes room.
  const other = open(port, "127.0.0.3", "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  while (waiting.length < LIMITS.ofAddress + 1) await settled();
  expect((await other).closed).toBe(false);
  waiting[0]!.end("done");
  await settled();
  void probe(port, "127.0.0.2");
  while (waiting.length < LIMITS.ofAddress + 2) await settled();
});

test("a connection whose head isn't whole within seconds is closed", { timeout: 15_000 }, async () => {
  const port = await serving();
  const slow = await open(port, "127.0.0.2", "GET / HTTP/1.1\r\n");
  const silent = await open(port, "127.0.0.2");
  slow.resume();
  silent.resume();
  const startedAt = performance.now();
  await Promise.all([once(slow, "close"), once(silent, "close")]);
  expect(performance.now() - startedAt).toBeLessThan(8_000);
});

test("an accept that fails ends nothing", async () => {
  const port = await serving();
  server!.emit("error", Object.assign(new Error("accept EMFILE"), { code: "EMFILE" }));
  expect(await probe(port, "127.0.0.2")).toBe(200);
});

test("no more connections are taken than there are files for, and addresses of one network count together", () => {
  expect(limitsOfProcess(256)).toEqual({ all: 42, ofAddress: 21 });
  expect(limitsOfProcess(1_048_576)).toEqual({ all: CONNECTIONS_MAX, ofAddress: 2_048 });
  expect(limitsOfProcess(64).all).toBeGreaterThan(0);
  const connections = new Connections({ all: 9, ofAddress: 2 });
  const admit = (remoteAddress: string): boolean =>
    connections.admit(
      { remoteAddress, once: () => undefined, destroy: () => undefined } as unknown as Socket,
      () => "waits",
    );
  expect([admit("2001:db8::1"), admit("2001:db8:0:0:1::2"), admit("2001:db8::9:1")]).toEqual([true, true, false]);
  expect([admit("::ffff:10.0.0.1"), admit("10.0.0.1"), admit("10.0.0.1"), admit("10.0.0.2")]).toEqual([
    ...[true, true, false, true],
  ]);
});
