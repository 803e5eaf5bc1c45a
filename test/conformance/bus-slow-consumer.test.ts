/**
 * Consumers that are slower than their publishers, on a real server: both sides notice, and other clients are
 * unaffected.
 */
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect as connectSocket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { BusStatus } from "@tutti/ports/bus";
import { type NatsConnection, type NatsServer, connectNats, startNatsServer } from "@tutti/bus-nats";
import { afterEach, beforeEach, expect, test } from "vitest";
import { until } from "./bus-tools.ts";

let dir = "";
let server: NatsServer;
const cut: { connection: string; line: string }[] = [];
const open: NatsConnection[] = [];
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "tutti-slow-"));
  cut.length = 0;
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((connection) => connection.close()));
  await server.stop();
  await rm(dir, { recursive: true, force: true });
});

async function start(writeDeadlineMs: number): Promise<void> {
  server = await startNatsServer({
    dir,
    monitoringPort: 0,
    writeDeadlineMs,
    onSlowConsumer: (connection, line) => cut.push({ connection, line }),
  });
}
async function connect(name: string): Promise<NatsConnection> {
  const connection = await connectNats({ servers: server.url, name });
  open.push(connection);
  return connection;
}
const flushed = ({ bulk }: NatsConnection): Promise<boolean> => new Promise((resolve) => bulk.flush(resolve));

test("the server cuts off a consumer that reads nothing, says whom, and the publisher goes on", async () => {
  await start(500);
  const socket = connectSocket(server.port, "127.0.0.1");
  await once(socket, "connect");
  const options = JSON.stringify({ verbose: false, name: "tutti-sleeper bulk" });
  socket.write(`CONNECT ${options}\r\nSUB tensors 1\r\nPING\r\n`);
  await once(socket, "data"); // INFO; the client reads nothing after it
  socket.pause();
  socket.on("error", () => {});
  const publisher = await connect("publisher");
  const payload = new Uint8Array(1_000_000);
  await until(() => {
    publisher.bulk.publish("tensors", payload);
    return cut.length > 0;
  });
  expect(cut[0]).toMatchObject({ connection: "tutti-sleeper bulk" });
  expect(cut[0]!.line).toMatch(/Slow Consumer Detected/);
  const varz = (await (await fetch(`${server.monitoringUrl}/varz`)).json()) as { slow_consumers: number };
  expect(varz.slow_consumers).toBe(1);
  expect(await flushed(publisher)).toBe(true);
  socket.destroy();
});

test("a consumer that falls behind notices it itself, on that connection alone, and loses nothing", async () => {
  await start(10_000);
  const [slow, publisher] = [await connect("slow"), await connect("publisher")];
  const statuses = { bulk: [] as BusStatus[], control: [] as BusStatus[] };
  slow.bulk.onStatus((status) => statuses.bulk.push(status));
  slow.control.onStatus((status) => statuses.control.push(status));
  let heard = 0;
  const isBehind = (): boolean => statuses.bulk.some(({ kind }) => kind === "slow-consumer");
  slow.bulk.subscribe("tensors", () => {
    heard++;
    const end = performance.now() + 40;
    while (!isBehind() && performance.now() < end); // work that takes longer than the next message to come
  });
  await flushed(slow);
  // A turn of the event loop reads up to 2 MB of a socket before it looks at another. That is seven of these messages,
  // 0.3 s, for which the control connection waits too. Of small ones it would be so many that both are late.
  const payload = new Uint8Array(300_000);
  let sent = 0;
  // Both ends share this event loop: several messages are published for each one that is read, or none would ever wait.
  const publish = (count: number): void => {
    for (const end = sent + count; sent < end; sent++) publisher.bulk.publish("tensors", payload);
  };
  publish(100);
  await until(() => {
    if (!isBehind()) publish(10);
    return isBehind();
  });
  await until(() => heard === sent);
  const [status, ...more] = statuses.bulk;
  expect(status).toMatchObject({
    kind: "slow-consumer",
    text: expect.stringMatching(/late: a slow consumer/) as string,
  });
  expect((status as { lagMs: number }).lagMs).toBeGreaterThanOrEqual(2_000);
  expect([more, statuses.control]).toEqual([[], []]);
});
