/** Connections are bounded over TLS as over plain text: connections.test.ts. */
import { once } from "node:events";
import type { Server, ServerResponse } from "node:http";
import { Agent, request } from "node:https";
import { type Socket, connect } from "node:net";
import { type TLSSocket, connect as connectTls } from "node:tls";
import { type KeyAndCertificate, createAuthority, signServer } from "@tutti/admin/certificates";
import { afterEach, beforeAll, expect, test } from "vitest";
import { listen } from "../listening.ts";
import { boundedServer } from "./bounded-server.ts";

const LIMITS = { all: 6, ofAddress: 4 };
const WHOLE = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

let authority: KeyAndCertificate;
let pair: { readonly cert: string; readonly key: string };
let server: Server;
const sockets: Socket[] = [];

beforeAll(async () => {
  authority = await createAuthority("test", 10);
  const { certificate, key } = await signServer(authority, ["127.0.0.1"], 5);
  pair = { cert: certificate, key };
});
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
  server.closeAllConnections();
  server.close();
});

function serving(handle: (response: ServerResponse) => void): Promise<number> {
  server = boundedServer((_, response) => handle(response), { limits: LIMITS, tls: pair });
  return listen(server, "127.0.0.1", { port: 0 });
}
async function plain(port: number): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1" });
  sockets.push(socket);
  await once(socket, "connect");
  return socket.on("error", () => undefined).resume();
}
async function secure(port: number): Promise<TLSSocket> {
  const socket = connectTls({ port, host: "127.0.0.1", ca: authority.certificate });
  sockets.push(socket);
  await once(socket, "secureConnect");
  return socket.on("error", () => undefined).resume();
}
const statusOf = (port: number): Promise<number> =>
  new Promise((resolve, reject) => {
    request({ port, host: "127.0.0.1", ca: authority.certificate, agent: new Agent() }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    })
      .on("error", reject)
      .end();
  });

test("clients that never shake hands, or never ask, keep nobody from being answered", async () => {
  const port = await serving((response) => void response.end("ok"));
  const silent: Socket[] = [];
  for (let i = 0; i < 10; i++) silent.push(await (i % 2 === 0 ? plain : secure)(port));
  await expect.poll(() => silent.filter(({ closed }) => closed).length).toBe(10 - LIMITS.ofAddress);
  expect(await statusOf(port)).toBe(200);
});

test("who waits for our answer keeps its connection, and who was answered makes room", async () => {
  const waiting: ServerResponse[] = [];
  const port = await serving((response) => void waiting.push(response));
  const clients: TLSSocket[] = [];
  for (let i = 0; i < LIMITS.ofAddress; i++) {
    clients.push(await secure(port));
    clients[i]!.write(WHOLE);
  }
  await expect.poll(() => waiting.length).toBe(LIMITS.ofAddress);
  await expect(secure(port)).rejects.toThrow();
  expect(clients.some(({ closed }) => closed)).toBe(false);
  waiting[0]!.end("done");
  await expect.poll(() => waiting[0]!.writableFinished).toBe(true);
  (await secure(port)).write(WHOLE);
  await expect.poll(() => waiting.length).toBe(LIMITS.ofAddress + 1);
  expect(clients.filter(({ closed }) => closed).length).toBe(1);
});

test.each([
  ["hello\r\n\r\n", 400, "this is no HTTP/1.1"],
  ["GET / HTTP/1.1\r\nHost: a\r\nX: " + "x".repeat(20_000) + "\r\n\r\n", 431, "have at most 16384 bytes together"],
])("a request that can't be read is told why (%#)", async (request, status, text) => {
  const port = await serving((response) => void response.end("ok"));
  const socket = await secure(port);
  const parts: Buffer[] = [];
  socket.on("data", (part: Buffer) => parts.push(part)).write(request);
  await once(socket, "close");
  const [head = "", body = ""] = Buffer.concat(parts).toString().split("\r\n\r\n");
  expect(head).toContain(`HTTP/1.1 ${status} `);
  expect(JSON.parse(body)).toMatchObject({ error: expect.stringContaining(text), retryable: false });
});

test.each(["identity, chunked", "identity\r\nTransfer-Encoding: chunked", "gzip, chunked", ",chunked"])(
  "chunks beside another coding (%j) are refused, and what follows them is not read",
  async (coding) => {
    let asked = 0;
    const port = await serving((response) => void response.end(`${++asked}`));
    const socket = await secure(port);
    const parts: Buffer[] = [];
    socket.on("data", (part: Buffer) => parts.push(part));
    socket.write(`POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: ${coding}\r\n\r\n0\r\n\r\n${WHOLE}`);
    await once(socket, "close");
    const [head = "", body = "", ...more] = Buffer.concat(parts).toString().split("\r\n\r\n");
    expect(head).toContain("HTTP/1.1 400 ");
    expect(JSON.parse(body)).toMatchObject({ code: "TUTTI_INVALID_INPUT", retryable: false });
    expect([more, asked]).toEqual([[], 0]);
  },
);

test("chunks alone are read, however they are spelt", async () => {
  const port = await serving((response) => void response.end("ok"));
  const socket = await secure(port);
  socket.write("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\n");
  const [answer] = (await once(socket, "data")) as [Buffer];
  expect(answer.toString()).toContain("HTTP/1.1 200 ");
});

test.each([
  ["it", "hello\r\n\r\n"],
  ["a request that waits for its turn behind it", `${WHOLE}hello\r\n\r\n`],
])("an answer that has begun isn't gone on with by the refusal of what follows %s", async (_, following) => {
  let answers = 0;
  const port = await serving((response) => {
    if (answers++ === 0) response.writeHead(200, { "content-length": 10 }).write("01234");
  });
  const socket = await secure(port);
  const parts: Buffer[] = [];
  socket.on("data", (part: Buffer) => parts.push(part)).write(WHOLE);
  await expect.poll(() => Buffer.concat(parts).toString()).toContain("01234");
  socket.write(following);
  await once(socket, "close");
  expect(Buffer.concat(parts).toString()).toMatch(/\r\n\r\n01234$/);
});

test("a client that doesn't shake hands is let go after five seconds", { timeout: 10_000 }, async () => {
  const port = await serving((response) => void response.end("ok"));
  const socket = await plain(port);
  await once(socket, "close", { signal: AbortSignal.timeout(8_000) });
});
