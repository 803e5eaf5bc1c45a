/**
 * Deaths of peers on a real server, with the permissions of roles. Probes and the detection of a failed leader rest on
 * them (docs/architecture.md, 4).
 */
import { ActorRuntime } from "@tutti/actors";
import { type NatsConnection, usersOf } from "@tutti/bus-nats";
import { NodeClock } from "@tutti/node/clock";
import type { Role } from "@tutti/protocol";
import { noTelemetry } from "@tutti/ports/telemetry";
import { type ActorKey, actorKey, millis, seconds } from "@tutti/units";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { withNats } from "../fixtures/nats.ts";
import { until } from "./bus-tools.ts";

const nats = withNats({ users: usersOf({ cluster: "main", apps: [] }) });
const clock = new NodeClock();

beforeAll(() => clock.ready());
afterAll(() => clock.close());
const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function as(role: Role): Promise<NatsConnection> {
  const connection = await nats().connect(role);
  closing.push(() => connection.close());
  return connection;
}

/**
 * An actor on a connection of its own. It probes each peer that it hears every 20 ms, and waits ten seconds for a
 * silent one.
 */
async function actor(role: Role, options: { readonly key: number; readonly probes: Role | undefined }) {
  const { control: bus, bulk, store } = await as(role);
  const lost: ActorKey[] = [];
  const denied: string[] = [];
  const heard: ActorKey[] = [];
  bus.onStatus((status) => status.kind === "permission-denied" && denied.push(status.subject));
  const config = {
    key: actorKey(options.key),
    cluster: "main",
    host: "h",
    pid: 1,
    heartbeatEvery: millis(100),
    peerTimeout: seconds(10),
    probeEvery: millis(20),
  };
  const ports = { bus, bulk, store, clock, telemetry: noTelemetry, randomBytes: () => new Uint8Array(32) };
  const runtime = new ActorRuntime(ports, config, {
    role,
    listensTo: options.probes === undefined ? [] : [options.probes],
    ...(options.probes !== undefined && { probes: () => true }),
    stats: () => ({ figures: {} }),
    onBeat: ({ key }) => heard.push(key),
    onLost: ({ key }) => lost.push(key),
  });
  runtime.open();
  closing.push(() => new Promise<void>((resolve) => runtime.close(resolve)));
  return { bus, lost, denied, heard };
}

for (const [observer, role] of [
  ["ranker", "executor"],
  ["ranker", "batcher"],
  ["ranker", "ranker"],
  ["batcher", "batcher"],
] as const) {
  test(`the server tells the ${observer} of the ${role} whose connection is gone, and of nobody else`, async () => {
    const { lost, denied, heard } = await actor(observer, { key: 1, probes: role });
    const dying = await actor(role, { key: 2, probes: undefined });
    await actor(role, { key: 3, probes: undefined });
    const count = (key: number): number => heard.filter((one) => one === key).length;
    await until(() => count(2) > 2 && count(3) > 2);
    expect(lost).toEqual([]);
    dying.bus.close(() => undefined);
    const since = performance.now();
    await until(() => lost.length > 0);
    expect(performance.now() - since).toBeLessThan(1_000); // 21 ms on a quiet machine, and 10 s without the probes
    const before = count(3);
    await until(() => count(3) > before + 2);
    expect(lost).toEqual([2]);
    expect(denied).toEqual([]);
  });
}
