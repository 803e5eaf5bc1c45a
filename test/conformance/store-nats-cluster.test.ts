/** Three NATS servers keep the same revisions after any of them was killed, also where actors created the same key. */
import { type NatsConnection, connectNats, readCredentials, usersOf } from "@tutti/bus-nats";
import { type Entry, type Revision, type StoreFailure, isStoreFailure } from "@tutti/ports/store";
import { BUCKET } from "@tutti/protocol";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type NatsClusterFixture, startNatsCluster, wholeStream } from "../fixtures/nats-cluster.ts";

const KEYS = ["model.1", "model.2", "model.3"];
let servers: NatsClusterFixture;
let batcher: NatsConnection;
let operator: NatsConnection;

beforeAll(async () => {
  servers = await startNatsCluster(usersOf({ cluster: "main", apps: [] }));
  batcher = await servers.connect("batcher");
  operator = await servers.connect("admin");
});
afterAll(async () => {
  await batcher?.close();
  await operator?.close();
  await servers?.stop();
});

const VALUE = new Uint8Array(1);
const put = (key: string): Promise<Revision | StoreFailure> =>
  new Promise((resolve) => batcher.store.put(BUCKET.leases, key, VALUE, resolve));

/** Creates a key: a conflict if it is there. It asks again while servers that have just started elect a leader. */
async function create(key: string): Promise<Revision | "conflict"> {
  for (;;) {
    const result = await new Promise<Revision | "conflict" | StoreFailure>((resolve) =>
      batcher.store.update(BUCKET.leases, key, VALUE, 0, resolve),
    );
    if (!isStoreFailure(result)) return result;
  }
}

/** The newest revision in one server's own copy. */
async function lastRevisionAt(url: string): Promise<number> {
  const credentials = readCredentials(servers.servers[0]!.credentials["batcher"]!);
  const own = await connectNats({ servers: url, ignoreClusterUpdates: true, name: "look", credentials });
  const entries = await Promise.all(
    KEYS.map(
      (key) => new Promise<Entry | "absent" | StoreFailure>((resolve) => own.store.get(BUCKET.leases, key, resolve)),
    ),
  );
  await own.close();
  return Math.max(...entries.map((entry) => (typeof entry === "object" && "revision" in entry ? entry.revision : NaN)));
}

test("a killed server has no change twice when it is back", async (context) => {
  context.skip(batcher.warning !== undefined, batcher.warning);
  await create(KEYS[0]!);
  let last = 1;
  for (const [round, server] of [...servers.servers, ...servers.servers].entries()) {
    for (let i = 0; i < 20; i++) {
      const key = KEYS[i % KEYS.length]!;
      expect(await put(key)).toEqual({ revision: ++last });
      expect(await create(key)).toBe("conflict");
    }
    await (round % 2 === 0 ? server.kill() : server.stop());
    await server.restart();
    await wholeStream(operator.control, BUCKET.leases);
    for (const { url } of servers.servers) expect(await lastRevisionAt(url)).toBe(last);
  }
});
