import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { type Server, type Socket, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type DataAddress, type PullRequest, TOKEN_BYTES } from "@tutti/protocol";
import type { DataHandlers, PullOutcome } from "@tutti/ports/pull";
import { actorKey, instant, micros } from "@tutti/units";
import { type DataFrame, encodeHello, encodePull, encodeResults, encodeWelcome, joinFrame } from "@tutti/wire";
import fc from "fast-check";
import { afterEach, expect, test } from "vitest";
import { proofOf } from "./hello-proof.ts";
import { TcpDataClient, type TcpClientOptions, type TcpDataServer, type TcpServerOptions, serveTcp } from "./index.ts";

const INGRESS = actorKey(1_001);
const EXECUTOR = actorKey(2_002);
const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  await Promise.all(closing.splice(0).map((close) => close()));
});

const echo: DataHandlers = {
  onPull: (pull, reply) => reply(pull.seqs.map((seq) => ({ seq, row: new Uint8Array(8).fill(seq), traceparent: "" }))),
  onResults: () => {},
};
async function serving(
  over: Partial<TcpServerOptions> = {},
): Promise<{ server: TcpDataServer; address: DataAddress; faults: string[] }> {
  const faults: string[] = [];
  const server = serveTcp({ key: INGRESS, handlers: echo, onFault: (text) => faults.push(text), ...over });
  closing.push(() => new Promise<void>((resolve) => server.close(resolve)));
  return { server, address: await server.listening, faults };
}
function client(over: Partial<TcpClientOptions> = {}): TcpDataClient {
  const it = new TcpDataClient({ key: EXECUTOR, ...over });
  closing.push(() => new Promise<void>((resolve) => it.close(resolve)));
  return it;
}
const pullOf = (seqs: number[], executor: number = EXECUTOR): PullRequest => ({
  executor,
  gpu: 0,
  thread: 64,
  batchId: 1,
  batcher: 9,
  token: new Uint8Array(TOKEN_BYTES),
  seqs,
});
const pulled = (it: TcpDataClient, address: DataAddress, seqs: number[], timeoutMs = 10_000): Promise<PullOutcome> =>
  new Promise((resolve) =>
    it.pull({ key: INGRESS, address }, pullOf(seqs), timeoutMs, (outcome) =>
      resolve(
        "items" in outcome ? { items: outcome.items.map((item) => ({ ...item, row: item.row?.slice() })) } : outcome,
      ),
    ),
  );
const served = { items: [{ seq: 3, row: Buffer.alloc(8, 3), traceparent: "" }] };

async function raw(address: DataAddress): Promise<Socket> {
  const socket = connect(address.port, address.host);
  socket.on("error", () => {});
  socket.resume();
  closing.push(async () => socket.destroy());
  await once(socket, "connect");
  return socket;
}
const helloTo = ({ secret = "" }: DataAddress, executor = EXECUTOR): DataFrame =>
  encodeHello(executor, INGRESS, proofOf(secret, "hello", executor, INGRESS));
/** Secret of the ingress as which the impostors pose. */
const SECRET = "the secret of a port";
const welcomeOf = (secret: string): DataFrame => encodeWelcome(INGRESS, proofOf(secret, "welcome", EXECUTOR, INGRESS));
const welcome = welcomeOf(SECRET);
const bytesOf = (...frames: DataFrame[]): Uint8Array => Buffer.concat(frames.map(joinFrame));
const cutOff = (socket: Socket): Promise<unknown> => once(socket, "close");

/** Each of `bad` ends its own connection for its reason, and another executor pulls before and afterwards. */
async function eachIsCutOff(bad: (address: DataAddress) => [Uint8Array, RegExp][]): Promise<void> {
  const { server, address, faults } = await serving();
  const good = client();
  expect(await pulled(good, address, [3])).toEqual(served);
  const cases = bad(address);
  for (const [bytes, reason] of cases) {
    const socket = await raw(address);
    socket.write(bytes);
    await cutOff(socket);
    expect(faults.at(-1)).toMatch(reason);
  }
  expect(server.figures.faults).toBe(cases.length);
  expect(await pulled(good, address, [3])).toEqual(served);
  expect(good.figures.failures).toBe(0);
}

test("who says anything but a right hello first is cut off, counted, and disturbs nobody", () =>
  eachIsCutOff(() => [
    [new TextEncoder().encode("GET / HTTP/1.1\r\n\r\n"), /no frames/],
    [bytesOf(encodePull(pullOf([1]), 1)), /it announces 80 bytes before it is admitted/],
    [bytesOf(welcome), /welcome before hello/],
    [bytesOf(encodeHello(EXECUTOR, actorKey(5), new Uint8Array(TOKEN_BYTES))), /hello to another ingress, 5/],
    [bytesOf(encodeHello(EXECUTOR, INGRESS, new Uint8Array(TOKEN_BYTES))), /hello without this ingress' secret/],
    [bytesOf(encodeHello(EXECUTOR, INGRESS, new Uint8Array(0))), /hello without this ingress' secret/],
  ]));

test("an executor whose frames are none, too large, or out of place is cut off, counted, and disturbs nobody", () => {
  const huge = Buffer.from(bytesOf(welcome));
  huge.writeUInt32LE(0x7fff_fff8, 8);
  const times = { startedAt: instant(0), finishedAt: instant(0), run: micros(0) };
  const results = encodeResults({ ...pullOf([]), ...times, batchSize: 1, items: [] })[0]!;
  return eachIsCutOff((address) => [
    [Buffer.concat([bytesOf(helloTo(address)), huge]), /no frames/],
    [bytesOf(helloTo(address), encodePull(pullOf([1], 77), 1)), /a pull in the name of another executor/],
    [bytesOf(helloTo(address, actorKey(77)), results), /results in the name of another executor/],
    [bytesOf(helloTo(address), helloTo(address)), /hello is not for an ingress/],
  ]);
});

test("random bytes after a hello never stop the server", async () => {
  const { address } = await serving();
  const good = client();
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ minLength: 1, maxLength: 300 }), async (bytes) => {
      const socket = await raw(address);
      socket.end(Buffer.concat([bytesOf(helloTo(address, actorKey(77))), bytes]));
      await cutOff(socket);
    }),
    { numRuns: 50 },
  );
  expect(await pulled(good, address, [3])).toEqual(served);
});

/** A server of the test's own, which handles each connection as the test wants. */
async function impostor(onConnection: (socket: Socket) => void): Promise<DataAddress> {
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket.on("error", () => {}));
    onConnection(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closing.push(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { host: "127.0.0.1", port: (server.address() as { port: number }).port, tls: false, secret: SECRET };
}

test("an ingress that answers with garbage, as another one, or not at all is unreachable, and the client goes on", async () => {
  const { address } = await serving();
  const faults: string[] = [];
  const it = client({ connectTimeoutMs: 100, onFault: (text) => faults.push(text) });
  const garbage = await impostor((socket) => socket.write("SSH-2.0-OpenSSH_9.2p1 Debian\r\n"));
  const other = await impostor((socket) => socket.write(bytesOf(encodeWelcome(555, new Uint8Array(TOKEN_BYTES)))));
  const thief = await impostor((socket) => socket.write(bytesOf(encodeWelcome(INGRESS, new Uint8Array(TOKEN_BYTES)))));
  const silent = await impostor((socket) => socket.resume());
  for (const [where, reason] of [
    [garbage, /no frames/],
    [other, /another ingress, 555/],
    [silent, /no welcome in time/],
    [thief, /doesn't know the ingress' secret/],
  ] as const) {
    expect(await pulled(it, where, [1])).toEqual({ failure: "unreachable" });
    expect(faults.at(-1)).toMatch(reason);
  }
  expect(await pulled(it, address, [3])).toEqual(served);
});

test("a connection that broke is made again by the next pull", async () => {
  const { address } = await serving();
  const it = client();
  const sockets: Socket[] = [];
  const onTheWay = await impostor((socket) => {
    const onward = connect(address.port, address.host).on("error", () => {});
    sockets.push(socket, onward);
    socket.pipe(onward).pipe(socket);
  });
  const proxy = { ...address, port: onTheWay.port };
  expect(await pulled(it, proxy, [3])).toEqual(served);
  const gone = once(sockets[0]!, "close");
  for (const socket of sockets) socket.destroy();
  await gone;
  // The client may notice only now; the pull that finds out fails, and the next one is served.
  const first = await pulled(it, proxy, [3]);
  expect([served, { failure: "unreachable" }]).toContainEqual(first);
  expect(await pulled(it, proxy, [3])).toEqual(served);
  expect(it.figures.connects).toBe(2);
});

test("a peer that went silent without closing is given up after a while, and connected anew", async () => {
  let connections = 0;
  const { address } = await serving();
  const it = client({ silenceMs: 50 });
  const onTheWay = await impostor((socket) => {
    connections++;
    if (connections > 1) {
      const onward = connect(address.port, address.host).on("error", () => {});
      closing.push(async () => onward.destroy());
      socket.pipe(onward).pipe(socket);
    } else socket.once("data", () => socket.write(bytesOf(welcomeOf(address.secret!))));
  });
  const halfDead = { ...address, port: onTheWay.port };
  expect(await pulled(it, halfDead, [3], 100)).toEqual({ failure: "timeout" });
  expect(await pulled(it, halfDead, [3])).toEqual(served);
  expect(connections).toBe(2);
});

test("an executor that doesn't read what it pulls is cut off before its rows fill the memory", async () => {
  const row = new Uint8Array(1_000_000);
  let pulls = 0;
  const { address, faults } = await serving({
    pendingBytesMax: 4_000_000,
    handlers: {
      onPull: (pull, reply) => {
        pulls++;
        reply(pull.seqs.map((seq) => ({ seq, row, traceparent: "" })));
      },
      onResults: () => {},
    },
  });
  const socket = await raw(address);
  socket.pause();
  socket.write(bytesOf(helloTo(address)));
  for (let i = 0; i < 200; i++) socket.write(bytesOf(encodePull(pullOf([1]), i)));
  const seen = new Promise<void>((resolve) => {
    const check = setInterval(() => {
      if (faults.length === 0) return;
      clearInterval(check);
      resolve();
    }, 5);
  });
  await seen;
  expect(faults[0]).toMatch(/doesn't read/);
  expect(pulls).toBeLessThan(60); // 4 MB of ours and the kernel's buffers, not 200 MB
});

test("results that an ingress doesn't read are dropped and told beyond a bound", async () => {
  const faults: string[] = [];
  const it = client({ pendingBytesMax: 2_000_000, onFault: (text) => faults.push(text) });
  const deaf = await impostor((socket) => {
    socket.once("data", () => {
      socket.write(bytesOf(welcome));
      socket.pause();
    });
  });
  const outputs = new Uint8Array(1_000_000);
  const results = { ...pullOf([]), batchSize: 1, startedAt: 0, finishedAt: 0, run: 0 };
  for (let i = 0; i < 50; i++)
    it.push({ key: INGRESS, address: deaf }, { ...results, items: [{ seq: 1, outputs, code: 0, text: "" }] } as never);
  expect(it.figures.droppedPushes).toBeGreaterThan(40);
  expect(faults.at(-1)).toMatch(/batch 1 could not be sent and are dropped/);
});

test("an idle connection closes, and the next pull makes a new one", async () => {
  const { address } = await serving();
  const it = client({ idleMs: 20 });
  expect(await pulled(it, address, [3])).toEqual(served);
  await new Promise<void>((resolve) => {
    const check = setInterval(() => {
      if (it.connections > 0) return;
      clearInterval(check);
      resolve();
    }, 5);
  });
  expect(await pulled(it, address, [3])).toEqual(served);
  expect([it.figures.connects, it.figures.failures]).toEqual([2, 0]);
});

test("a connection whose reply takes longer than idle ones live is not idle", async () => {
  const slow: DataHandlers = { ...echo, onPull: (pull, reply) => void setTimeout(() => echo.onPull(pull, reply), 150) };
  const { address } = await serving({ handlers: slow });
  const it = client({ idleMs: 20 });
  expect(await pulled(it, address, [3])).toEqual(served);
  expect([it.figures.connects, it.figures.failures]).toEqual([1, 0]);
});

test("rows lie at multiples of 8 bytes, so that they can be viewed as typed arrays", async () => {
  const { address } = await serving();
  const it = client();
  for (const seqs of [[3], [1, 2, 3], [4, 5]]) {
    const offsets = await new Promise<(number | undefined)[]>((resolve) =>
      it.pull({ key: INGRESS, address }, pullOf(seqs), 10_000, (outcome) =>
        resolve("items" in outcome ? outcome.items.map(({ row }) => row?.byteOffset) : []),
      ),
    );
    expect(offsets.map((offset) => offset! % 8)).toEqual(seqs.map(() => 0));
  }
});

test("a port that is taken is told as UNAVAILABLE", async () => {
  const { address } = await serving();
  const second = serveTcp({ key: INGRESS, handlers: echo, port: address.port });
  await expect(second.listening).rejects.toMatchObject({ code: "TUTTI_UNAVAILABLE" });
  expect(second.address).toBeUndefined();
  await new Promise<void>((resolve) => second.close(resolve));
});

test("with a certificate the plane is encrypted, and a client without its authority does not connect", async (ctx) => {
  const dir = mkdtempSync(join(tmpdir(), "tutti-tls-"));
  closing.push(async () => rmSync(dir, { recursive: true }));
  try {
    execFileSync(
      "openssl",
      // prettier-ignore
      ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
       "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", join(dir, "key.pem"), "-out", join(dir, "cert.pem")],
      { stdio: "ignore" },
    );
  } catch {
    return ctx.skip("openssl, which makes the certificate, is missing");
  }
  const cert = readFileSync(join(dir, "cert.pem"), "utf8");
  const { address } = await serving({ tls: { cert, key: readFileSync(join(dir, "key.pem"), "utf8") } });
  expect(address.tls).toBe(true);
  expect(await pulled(client({ ca: cert }), address, [3])).toEqual(served);
  expect(await pulled(client(), address, [3])).toEqual({ failure: "unreachable" });
  expect(await pulled(client({ connectTimeoutMs: 300 }), { ...address, tls: false }, [3])).toEqual({
    failure: "unreachable",
  });
});
