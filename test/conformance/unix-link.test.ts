import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { HostBus, InMemoryNetwork, type LinkSwitch } from "@tutti/ports/bus";
import { LinkAssembler, LinkListener, connectLink, decodeLinkMessage, encodeLinkMessage } from "@tutti/pull-tcp";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { busConformance } from "./bus.suite.ts";
import { type BusNetwork, until } from "./bus-tools.ts";

const folder = mkdtempSync(join(tmpdir(), "tutti-link-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const network = new InMemoryNetwork({ payloadMax: 1_048_576 });

interface Process {
  readonly id: string;
  readonly path: string;
  readonly publicKey: string;
  readonly privateKey: ReturnType<typeof generateKeyPairSync>["privateKey"];
  readonly under: ReturnType<typeof network.connect>;
  readonly host: HostBus;
  readonly listener: LinkListener;
  readonly links: Map<string, LinkSwitch>;
}
const processes = new Map<string, Process>();
let count = 0;

async function startProcess(): Promise<Process> {
  const id = `u${++count}`;
  const under = network.connect({ name: id, noEcho: true });
  const host = new HostBus({ under });
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const links = new Map<string, LinkSwitch>();
  const path = join(folder, `${id}.sock`);
  const listener = new LinkListener({
    path,
    identity: { id, privateKey },
    publicKeyOf,
    wants: (peer) => !links.has(peer),
    onLink: (peer, { control }) => void links.set(peer, host.link(control)),
  });
  await listener.ready();
  const key = publicKey.export({ format: "der", type: "spki" }).toString("base64");
  const process = { id, path, publicKey: key, privateKey, under, host, listener, links };
  processes.set(id, process);
  return process;
}
const publicKeyOf = (id: string): string | undefined => processes.get(id)?.publicKey;

function offer(from: Process, to: Process, as: Pick<Process, "id" | "privateKey"> = from): Promise<boolean> {
  return new Promise((resolve) =>
    connectLink({
      path: to.path,
      identity: { id: as.id, privateKey: as.privateKey },
      peer: to.id,
      publicKeyOf,
      onLink: (peer, { control }) => {
        from.links.set(peer, from.host.link(control));
        resolve(true);
      },
      onFailed: () => resolve(false),
    }),
  );
}

async function closeAll(): Promise<void> {
  const all = [...processes.values()];
  processes.clear();
  for (const { listener } of all) listener.close();
  await Promise.all(all.map(({ host }) => new Promise<void>((resolve) => host.close(resolve))));
}

const linked: BusNetwork = {
  connect: async () => {
    const started = await startProcess();
    for (const other of processes.values()) if (other !== started) expect(await offer(started, other)).toBe(true);
    const standing = (): boolean =>
      [...processes.values()].every(({ links }) => links.size === processes.size - 1 && areUp(links));
    await until(standing);
    return started.host.actor();
  },
  connectRestricted: async () => {
    const under = network.connect({
      name: `u${++count}`,
      noEcho: true,
      mayPublish: (subject) => /^(open|_INBOX)\./.test(subject),
      maySubscribe: (pattern) => /^(open|_INBOX)\./.test(pattern),
    });
    const process = { ...(await startProcess()), under };
    return (processes.set(process.id, process), new HostBus({ under }).actor());
  },
  cut: async () => processes.forEach(({ under }) => under.disconnect()),
  heal: async () => processes.forEach(({ under }) => under.reconnect()),
  closeAll,
};
const areUp = (links: ReadonlyMap<string, LinkSwitch>): boolean => [...links.values()].every(({ isUp }) => isUp);

busConformance("processes linked over Unix sockets", () => linked, { isLocal: true });

test("who is not the process that its heartbeat named gets no link, whichever end it is", async () => {
  const [a, b] = [await startProcess(), await startProcess()];
  const { privateKey } = generateKeyPairSync("ed25519");
  expect(await offer(a, b, { id: a.id, privateKey })).toBe(false);
  expect(await offer(a, b, { id: "unheard", privateKey })).toBe(false);
  processes.set(b.id, { ...b, publicKey: a.publicKey });
  expect(await offer(a, b)).toBe(false);
  processes.set(b.id, b);
  expect([a.links.size, b.links.size]).toEqual([0, 0]);
  expect(await offer(a, b)).toBe(true);
  await closeAll();
});

test("bytes that are no handshake, or no messages, end their connection and nothing else", async () => {
  const [a, b] = [await startProcess(), await startProcess()];
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ minLength: 1, maxLength: 200 }), async (bytes) => {
      const socket = connect(b.path).on("error", () => undefined);
      const closed = new Promise((resolve) => socket.once("close", resolve));
      socket.end(bytes);
      socket.resume();
      await closed;
    }),
    { numRuns: 30 },
  );
  expect(await offer(a, b)).toBe(true);
  await closeAll();
});

test("before the handshake is over a long message is refused by its announced length", async () => {
  const [a, b] = [await startProcess(), await startProcess()];
  const socket = connect(b.path).on("error", () => undefined);
  const closed = new Promise((resolve) => socket.once("close", resolve));
  const announcing = Buffer.alloc(4);
  announcing.writeUInt32LE(5_000);
  const startedAt = performance.now();
  socket.write(announcing);
  await closed;
  expect(performance.now() - startedAt).toBeLessThan(1_500); // a handshake may take 2 s
  expect(await offer(a, b)).toBe(true);
  const heard: number[] = [];
  b.host.actor().subscribe("open.x", ({ payload }) => heard.push(payload.byteLength), { exclusive: true });
  await until(() => areUp(a.links) && areUp(b.links));
  const from = a.host.actor();
  await until(() => from.isNear!("open.x"));
  from.publish("open.x", new Uint8Array(1_000_000));
  await until(() => heard.length === 1);
  expect(heard).toEqual([1_000_000]);
  await closeAll();
});

test("a link that breaks leaves its messages to the server, and its other end too", async () => {
  const [a, b] = [await startProcess(), await startProcess()];
  expect(await offer(a, b)).toBe(true);
  const [from, to] = [a.host.actor(), b.host.actor()];
  const heard: string[] = [];
  to.subscribe("open.x", ({ payload }) => heard.push(Buffer.from(payload).toString()), { exclusive: true });
  await until(() => areUp(a.links) && areUp(b.links));
  await until(() => from.isNear!("open.x"));
  a.links.get(b.id)!.close();
  await until(() => !from.isNear!("open.x"));
  from.publish("open.x", Buffer.from("by the server"));
  await until(() => heard.length > 0);
  expect(heard).toEqual(["by the server"]);
  await closeAll();
});

test("segments reach the only subscriber of a link as one message, and nobody else", async () => {
  const [a, b] = [await startProcess(), await startProcess()];
  expect(await offer(a, b)).toBe(true);
  const [from, to] = [a.host.actor(), b.host.actor()];
  const heard: Uint8Array[] = [];
  to.subscribe("open.x", ({ payload }) => heard.push(new Uint8Array(payload)), { exclusive: true });
  to.subscribe("open.shared", ({ payload }) => heard.push(payload));
  await until(() => areUp(a.links) && areUp(b.links));
  await until(() => from.isNear!("open.x") && from.isNear!("open.shared"));
  const segments = [1, 9_000, 3, 150_000].map((byteLength, i) => new Uint8Array(byteLength).fill(i + 1));
  from.publish("open.x", Uint8Array.of(7));
  expect(from.publishNear!("open.x", segments)).toBe(true);
  from.publish("open.x", Uint8Array.of(8));
  for (const subject of ["open.shared", "open.nobody"]) expect(from.publishNear!(subject, segments)).toBe(false);
  expect(to.publishNear!("open.x", segments)).toBe(false); // here, and no link leads to it
  expect(from.publishNear!("open.x", [new Uint8Array(1_048_577)])).toBe(false);
  await until(() => heard.length === 3);
  expect(heard.map((payload) => Buffer.from(payload))).toEqual([Buffer.of(7), Buffer.concat(segments), Buffer.of(8)]);
  await closeAll();
});

test("messages come out of a stream as they went in, however it is cut", () => {
  const text = fc.string({ minLength: 1, maxLength: 30 }).map((raw) => raw.replaceAll(/[^\x21-\x7e]/g, "x"));
  const headers = fc.option(fc.dictionary(text, text, { maxKeys: 3 }), { nil: undefined });
  const message = fc.record({
    kind: fc.constant("message" as const),
    subject: text,
    reply: fc.option(text, { nil: undefined }),
    headers,
    payload: fc.uint8Array({ maxLength: 3_000 }),
  });
  fc.assert(
    fc.property(fc.array(message, { maxLength: 8 }), fc.array(fc.integer({ min: 1, max: 4_000 })), (messages, cuts) => {
      const frames = messages.map((one) => encodeLinkMessage(one));
      const stream = Buffer.concat(frames.flatMap(({ head, body }) => [head, ...body]));
      const found: unknown[] = [];
      const assembler = new LinkAssembler((body) => {
        const decoded = decodeLinkMessage(body);
        if (decoded?.kind !== "message") return void found.push(decoded);
        const { headers: given } = decoded;
        const own = given === undefined ? undefined : { ...given };
        found.push({ ...decoded, headers: own, payload: new Uint8Array(decoded.payload) });
      });
      let at = 0;
      for (const cut of [...cuts, stream.byteLength]) {
        expect(assembler.take(stream.subarray(at, at + cut))).toBe(true);
        at = Math.min(stream.byteLength, at + cut);
      }
      expect(found).toEqual(messages.map((one) => ({ ...one, headers: one.headers && { ...one.headers } })));
    }),
  );
});
