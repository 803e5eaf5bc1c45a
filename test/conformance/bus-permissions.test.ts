import { type BusFailure, type Delivery, isBusFailure, matches } from "@tutti/ports/bus";
import { LOCAL_USER, type NatsConnection, type NatsUser, connectNats, readCredentials, usersOf } from "@tutti/bus-nats";
import { BUCKET, ROLES, type Role, inferSubject, leaseKeys, subjectsOf } from "@tutti/protocol";
import { isStoreFailure } from "@tutti/ports/store";
import { actorKey } from "@tutti/units";
import { afterEach, expect, test } from "vitest";
import { withNats } from "../fixtures/nats.ts";
import { until } from "./bus-tools.ts";

const nats = withNats({ users: usersOf({ cluster: "main", apps: ["camera", "robot"] }), withLocalUser: true });
const subjects = subjectsOf("main");
const NOTHING = new Uint8Array(0);
const USERS = [...ROLES, "answers", "admin", "agent", "recorder", "app-camera", "app-robot"];

const open: NatsConnection[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((connection) => connection.close()));
});

/** A connection, and the permissions that the server has denied it. */
async function as(user: string | undefined): Promise<{ nats: NatsConnection; denied: string[] }> {
  const connection = await nats().connect(user);
  open.push(connection);
  const denied: string[] = [];
  connection.control.onStatus((status) => status.kind === "permission-denied" && denied.push(status.subject));
  return { nats: connection, denied };
}

/**
 * The subjects among these that the user may not publish to. The server reports denials in order, so a flush has seen
 * them all.
 */
async function deniedPublishing(user: string | undefined, to: readonly string[]): Promise<string[]> {
  const { nats: connection, denied } = await as(user);
  for (const subject of to) connection.control.publish(subject, NOTHING);
  await flushed(connection);
  return denied;
}

async function deniedSubscribing(user: string | undefined, to: readonly string[]): Promise<string[]> {
  const { nats: connection, denied } = await as(user);
  for (const subject of to) connection.control.subscribe(subject, () => {});
  await flushed(connection);
  return denied;
}

async function flushed(connection: NatsConnection): Promise<void> {
  await new Promise((resolve) => connection.control.flush(resolve));
  await new Promise((resolve) => setImmediate(resolve)); // Statuses are reported after the turn.
}

test("no role, no application and not the operator may read a role's inbox but that role itself", async () => {
  for (const user of USERS) {
    const others = [...ROLES.filter((role) => role !== user).map((role) => `_INBOX_${role}.>`), "_INBOX_*.>", ">"];
    expect(await deniedSubscribing(user, others), user).toEqual(others);
    expect(await deniedSubscribing(user, ["*.>"]), user).toEqual(["*.>"]);
  }
});

test("an application asks under its own name only, and hears only its own answers", async () => {
  const mine = ["infer.mlp.camera", "infer.any-model.camera"];
  const notMine = ["infer.mlp.robot", "infer.mlp", "infer.mlp.camera.x", "tutti.v1.main.all.batcher", "$SRV.PING"];
  expect(await deniedPublishing("app-camera", [...mine, ...notMine, "$JS.API.INFO", "$KV.tutti_models.x"])).toEqual([
    ...notMine,
    "$JS.API.INFO",
    "$KV.tutti_models.x",
  ]);
  const others = [
    "infer.>",
    "infer.*.camera",
    "_INBOX.robot.>",
    "_INBOX.>",
    "_INBOX.*.x",
    "tutti.>",
    "$SRV.>",
    "$KV.>",
  ];
  expect(await deniedSubscribing("app-camera", ["_INBOX.camera.>", "_INBOX.camera.a.b", ...others])).toEqual(others);
});

test("an application takes back requests in its own name only, and ingresses alone hear of it", async () => {
  expect(await deniedPublishing("app-camera", ["cancel.camera", "cancel.robot"])).toEqual(["cancel.robot"]);
  for (const user of USERS.filter((name) => name !== "ingress"))
    expect(await deniedSubscribing(user, ["cancel.*"]), user).toEqual(["cancel.*"]);
  expect(await deniedSubscribing("ingress", ["cancel.*"])).toEqual([]);
});

test("an application submits jobs and asks for results in its own name, and job runners alone hear it", async () => {
  const mine = ["jobs.mlp.camera", "jobresults.mlp.camera"];
  const inside = [
    ...["jobs.mlp.robot", "jobresults.mlp.robot", "jobqueue.mlp.camera.9", "deadjobs.mlp.camera.INTERNAL.9"],
    "jobuses.camera.9",
    ...["$JS.API.INFO", "$JS.API.DIRECT.GET.KV_tutti_results.$KV.tutti_results.camera.mlp.a", "$JS.ACK.tutti_jobs.x"],
    "$KV.tutti_results.camera.mlp.a",
  ];
  expect(await deniedPublishing("app-camera", [...mine, ...inside])).toEqual(inside);
  expect(await deniedPublishing(undefined, [...mine, ...inside.slice(2)])).toEqual(inside.slice(2));
  for (const user of USERS) {
    const heard = ["jobs.*.*", "jobresults.*.*", "jobqueue.*.*.*"];
    expect(await deniedSubscribing(user, heard), user).toEqual(heard);
    const { nats: connection, denied } = await as(user);
    for (const subject of heard) connection.control.subscribe(subject, () => {}, { queue: "jobs" });
    await flushed(connection);
    expect(denied, user).toEqual(user === "jobs" ? ["jobqueue.*.*.*"] : heard);
  }
});

test("whoever has no credentials may ask and be answered, and neither hears nor says anything inside", async () => {
  expect(LOCAL_USER.inboxPrefix).toBe("_INBOX");
  const inside = ["tutti.v1.main.all.batcher", "$KV.tutti_models.x", "$JS.API.INFO", "_INBOX.camera.x"];
  expect(await deniedPublishing(undefined, ["infer.mlp.app", "$SRV.PING", ...inside])).toEqual(inside);
  const outside = ["tutti.>", "infer.>", "$SRV.>", "$JS.>", "_INBOX_ingress.>"];
  expect(await deniedSubscribing(undefined, ["_INBOX.>", ...outside])).toEqual(outside);
});

test("an ingress hears requests as a member of the queue group, the recorder beside it, and nobody else", async () => {
  for (const user of USERS.filter((name) => name !== "ingress" && name !== "recorder")) {
    expect(await deniedSubscribing(user, ["infer.*.*"]), user).toEqual(["infer.*.*"]);
  }
  expect(await deniedSubscribing("ingress", ["infer.*.*"])).toEqual(["infer.*.*"]);
  const [ingress, answers, app] = [await as("ingress"), await as("answers"), await as("app-camera")];
  ingress.nats.control.subscribe(
    "infer.*.*",
    ({ reply, subject }) => void answers.nats.control.publish(reply!, new TextEncoder().encode(subject)),
    { queue: "ingress" },
  );
  await flushed(ingress.nats);
  const answer = await ask(app.nats, inferSubject("mlp", "camera"));
  expect(isBusFailure(answer) ? answer : new TextDecoder().decode(answer.payload)).toBe("infer.mlp.camera");
  expect([...ingress.denied, ...answers.denied, ...app.denied]).toEqual([]);
});

test("the operator gives orders to agents and hears their answers; an agent hears orders and answers, and does nothing else", async () => {
  const key = actorKey(123_456);
  const orders = [subjects.agents, subjects.agent(key)];
  const answer = subjects.operator(key);
  expect(await deniedPublishing("admin", [...orders, answer])).toEqual([answer]);
  expect(await deniedSubscribing("admin", [answer, ...orders])).toEqual(orders);
  const notItsOwn = ["infer.mlp.camera", "$SRV.PING", subjects.actor(key), subjects.beat("ranker"), "_INBOX.x.y"];
  expect(await deniedPublishing("agent", [answer, ...orders, ...notItsOwn])).toEqual([...orders, ...notItsOwn]);
  const heard = [subjects.beat("*"), subjects.stats("*"), subjects.role("ranker"), "infer.*.*", "_INBOX.>"];
  expect(await deniedSubscribing("agent", [...orders, answer, ...heard])).toEqual([answer, ...heard]);
  for (const user of [...ROLES, "recorder", "app-camera", undefined]) {
    expect(await deniedPublishing(user, [...orders, answer]), user).toEqual([...orders, answer]);
    expect(await deniedSubscribing(user, [...orders, answer]), user).toEqual([...orders, answer]);
  }
});

test("the operator alone asks which requests were refused and hears the answers, and ingresses alone are asked", async () => {
  const [question, answer] = [subjects.refusals, subjects.refusalsTold(actorKey(123_456))];
  expect(await deniedPublishing("admin", [question, answer])).toEqual([answer]);
  expect(await deniedSubscribing("admin", [answer, question])).toEqual([question]);
  expect(await deniedPublishing("ingress", [answer, question])).toEqual([question]);
  expect(await deniedSubscribing("ingress", [question, answer])).toEqual([answer]);
  for (const user of [...USERS.filter((name) => name !== "admin" && name !== "ingress"), undefined]) {
    expect(await deniedPublishing(user, [question, answer]), user).toEqual([question, answer]);
    expect(await deniedSubscribing(user, [question, answer, "tutti.v1.main.admin.>"]), user).toEqual([
      question,
      answer,
      "tutti.v1.main.admin.>",
    ]);
  }
});

test("the recorder hears requests, takes none from the ingresses, and neither says nor reads anything else", async () => {
  expect(await deniedSubscribing("recorder", ["infer.*.*", "infer.mlp.*"])).toEqual([]);
  const others = ["infer.>", "_INBOX.>", "_INBOX.camera.>", "tutti.>", "$SRV.>", "$KV.>", "$JS.>"];
  expect(await deniedSubscribing("recorder", others)).toEqual(others);
  const says = ["infer.mlp.camera", "_INBOX.camera.x", "tutti.v1.main.all.batcher", "$SRV.PING", "$KV.tutti_models.x"];
  expect(await deniedPublishing("recorder", says)).toEqual(says);
  const { nats: connection, denied } = await as("recorder");
  for (const queue of ["ingress", "any"]) connection.control.subscribe("infer.*.*", () => {}, { queue });
  connection.control.subscribe("infer.mlp.*", () => {}, { queue: "ingress" });
  await flushed(connection);
  expect(denied).toEqual(["infer.*.*", "infer.*.*", "infer.mlp.*"]);
});

test("the connection for answers reaches applications' inboxes and nothing else", async () => {
  const else_ = ["tutti.v1.main.all.batcher", "infer.mlp.camera", "_INBOX_ranker.x", "$SRV.PING", "$KV.tutti_models.x"];
  expect(await deniedPublishing("answers", ["_INBOX.camera.x", ...else_])).toEqual(else_);
});

test("each role may do what its part of the protocol needs", async () => {
  const key = actorKey(123_456);
  const publish: Record<Role, readonly string[]> = {
    ingress: [subjects.actor(key), subjects.role("batcher"), subjects.bulkReply(key), "_INBOX.camera.x"],
    batcher: [subjects.actor(key), subjects.role("ranker"), subjects.role("executor")],
    ranker: [subjects.actor(key), subjects.role("executor"), subjects.role("batcher")],
    executor: [subjects.actor(key), subjects.role("profiler"), subjects.role("ranker"), subjects.bulk(key)],
    profiler: [subjects.actor(key), subjects.role("executor")],
    planner: [subjects.role("executor"), subjects.role("ingress")],
    gateway: ["infer.mlp.camera", "$SRV.PING"],
    jobs: [
      ...[
        "infer.mlp.camera",
        "cancel.camera",
        "deadjobs.mlp.camera.INTERNAL.9",
        "jobqueue.mlp.camera.9",
        "jobuses.camera.9",
        "_INBOX.camera.x",
      ],
      "$KV.tutti_results.camera.mlp.a",
    ],
  };
  const subscribe: Partial<Record<Role, readonly string[]>> = {
    ingress: [subjects.bulk(key)],
    executor: [subjects.bulkReply(key)],
    planner: [subjects.stats("*")],
    gateway: [subjects.stats("*"), "_INBOX.camera.gateway.>"],
    jobs: ["_INBOX.camera.jobs.>"],
  };
  for (const role of ROLES) {
    const common = [subjects.beat(role), subjects.stats(role)];
    expect(await deniedPublishing(role, [...common, ...publish[role]]), role).toEqual([]);
    const heard = [subjects.actor(key), subjects.role(role), subjects.beat("ingress"), subjects.beat("*")];
    const services = ["$SRV.PING", `$SRV.INFO.${role}`, `$SRV.STATS.${role}.x1`];
    expect(await deniedSubscribing(role, [...heard, ...services, ...(subscribe[role] ?? [])]), role).toEqual([]);
  }
});

test("no role speaks as another, or leads, pulls and asks where that is not its part", async () => {
  const key = actorKey(123_456);
  for (const role of ROLES) {
    const other = role === "ranker" ? "batcher" : "ranker";
    const never = [subjects.beat(other), subjects.stats(other), "$JS.API.STREAM.DELETE.KV_tutti_leases", "$SYS.x"];
    expect(await deniedPublishing(role, never), role).toEqual(never);
    expect(await deniedSubscribing(role, [subjects.role(other)]), role).toEqual([subjects.role(other)]);
  }
  expect(await deniedPublishing("executor", ["infer.mlp.camera"])).toEqual(["infer.mlp.camera"]);
  expect(await deniedSubscribing("batcher", [subjects.bulk(key)])).toEqual([subjects.bulk(key)]);
});

test("every role reads the store, writes what it owns, and is refused at once where it does not", async () => {
  const owners: readonly { readonly bucket: string; readonly key: string; readonly writers: readonly string[] }[] = [
    { bucket: BUCKET.models, key: "mlp", writers: ["admin"] },
    { bucket: BUCKET.plan, key: "main", writers: ["planner", "admin"] },
    { bucket: BUCKET.profiles, key: "mlp", writers: ["profiler", "admin"] },
    { bucket: BUCKET.leases, key: leaseKeys.ranker("main"), writers: ["ranker"] },
    { bucket: BUCKET.leases, key: leaseKeys.model(7), writers: ["batcher"] },
    { bucket: BUCKET.leases, key: leaseKeys.slot(0), writers: ["executor"] },
  ];
  for (const user of [...ROLES, "admin"]) {
    const { nats: connection } = await as(user);
    for (const { bucket, key, writers } of owners) {
      let ready = false;
      const watch = connection.store.watch(bucket, "", {
        onEntry: () => {},
        onDelete: () => {},
        onReady: () => (ready = true),
        onFailure: ({ failure }) => expect.fail(`${user} watching ${bucket}: ${failure}`),
      });
      await until(() => ready);
      watch.stop();
      const written = await new Promise((resolve) => connection.store.put(bucket, key, NOTHING, resolve));
      expect(isStoreFailure(written), `${user} writing ${bucket} ${key}`).toBe(!writers.includes(user));
      const read = await new Promise((resolve) => connection.store.get(bucket, key, resolve));
      expect(isStoreFailure(read), `${user} reading ${bucket}`).toBe(false);
    }
    const stored = await new Promise((resolve) =>
      connection.store.files.put("m.onnx", new Uint8Array(300_000), resolve),
    );
    expect(isStoreFailure(stored), `${user} storing a file`).toBe(user !== "admin");
  }
});

test("an executor fetches the file that the operator stored", async () => {
  const [admin, executor] = [await as("admin"), await as("executor")];
  const file = new Uint8Array(1_000_000).map((_, i) => i);
  expect(await new Promise((resolve) => admin.nats.store.files.put("net.onnx", file, resolve))).toBe("stored");
  expect(await new Promise((resolve) => executor.nats.store.files.get("net.onnx", resolve))).toEqual({ bytes: file });
  expect([...admin.denied, ...executor.denied]).toEqual([]);
});

test("the operator and a client without credentials find every role by the services protocol", async () => {
  for (const role of ROLES) {
    const { nats: actor } = await as(role);
    actor.control.announce({
      name: role,
      id: "x1",
      version: "0.1.0",
      description: role,
      metadata: {},
      stats: () => ({}),
    });
    await flushed(actor);
    for (const asker of ["admin", undefined]) {
      const answer = await ask((await as(asker)).nats, `$SRV.PING.${role}.x1`);
      expect(isBusFailure(answer), `${role} asked by ${asker}`).toBe(false);
    }
  }
});

test("a stranger's key is refused with FORBIDDEN, and an unreachable server is UNAVAILABLE", async () => {
  const other = readCredentials(nats().credentials["app-robot"]!);
  const stranger = { kind: "password", user: "local", password: "guessed" } as const;
  const connect = (servers: string, credentials: typeof other | typeof stranger) =>
    connectNats({ servers, name: "stranger", credentials }).catch((error: unknown) => error);
  expect(await connect(nats().url, stranger)).toMatchObject({ code: "TUTTI_FORBIDDEN" });
  expect(await connect("nats://127.0.0.1:1", other)).toMatchObject({ code: "TUTTI_UNAVAILABLE" });
});

/** One subject that matches a pattern. */
const literalOf = (pattern: string): string =>
  pattern
    .split(" ", 1)[0]!
    .split(".")
    .map((token) => (token === "*" ? "x1" : token === ">" ? "x1.y2" : token))
    .join(".");

test("of all subjects that anybody may use, each user may use those that the table of users says, and no other", async () => {
  const all = [...usersOf({ cluster: "main", apps: ["camera", "robot"] }), LOCAL_USER];
  const subjects = (of: (user: NatsUser) => readonly string[]): string[] => [
    ...new Set(all.flatMap(of).map(literalOf)),
  ];
  const toPublish = subjects(({ publish }) => publish);
  const toSubscribe = [...subjects(({ subscribe }) => subscribe), ...subjects(({ publish }) => publish)];
  expect(toPublish.length).toBeGreaterThan(60);
  for (const user of all) {
    const name = user === LOCAL_USER ? undefined : user.name;
    const may = (patterns: readonly string[], subject: string): boolean =>
      patterns.some((pattern) => matches(pattern, subject));
    expect(await deniedPublishing(name, toPublish), `${user.name} publishing`).toEqual(
      toPublish.filter((subject) => !may(user.publish, subject)),
    );
    // A permission for members of a queue group doesn't allow a plain subscription.
    const plain = user.subscribe.filter((pattern) => !pattern.includes(" "));
    const once = [...new Set(toSubscribe)];
    expect(await deniedSubscribing(name, once), `${user.name} subscribing`).toEqual(
      once.filter((subject) => !may(plain, subject)),
    );
  }
});

function ask(connection: NatsConnection, subject: string): Promise<Delivery | BusFailure> {
  return new Promise((resolve) => connection.control.request(subject, NOTHING, { timeoutMs: 5_000 }, resolve));
}
