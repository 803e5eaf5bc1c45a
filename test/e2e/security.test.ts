/**
 * `tutti up` with applications and TLS, and attempts of applications and of a stolen role that must fail
 * (docs/security.md).
 */
import { readFileSync, readdirSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect as connectPlain } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { type NatsConnection, NatsDataClient, connectNats, readCredentials, roleInboxPrefix } from "@tutti/bus-nats";
import { type Tutti, connect } from "@tutti/client";
import { Heartbeat, type ResultBatch, TOKEN_BYTES, inferSubject, subjectsOf } from "@tutti/protocol";
import type { PullOutcome } from "@tutti/ports/pull";
import { actorKey, instant, micros } from "@tutti/units";
import { FrameReader, encodeRequest, encodeTensors } from "@tutti/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { until } from "../conformance/bus-tools.ts";
import { TuttiUp, tutti } from "./tutti-up.ts";

const CLUSTER = "main";
const subjects = subjectsOf(CLUSTER);
let folder: string;
let up: TuttiUp;
let ca: string;
const open: (() => Promise<unknown> | void)[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-e2e-security-"));
  const profiles = join(folder, "profiles.yaml");
  const models = [
    "{ name: quick, sloMs: 500, batchMax: 8, alphaMs: 0.5, betaMs: 2 }",
    "{ name: slow, sloMs: 5000, batchMax: 1, alphaMs: 500, betaMs: 1 }",
  ];
  await writeFile(profiles, `models: [${models.join(", ")}]\n`);
  expect((await tutti(["auth", "init", "--dir", join(folder, "auth"), "--tls"])).code).toBe(0);
  const tls = (name: string): string => join(folder, "auth", "tls", name);
  ca = tls("ca.pem");
  const files = ["--tls-ca", ca, "--tls-cert", tls("nats.pem"), "--tls-key", tls("nats-key.pem")];
  up = await TuttiUp.start([
    ...["--emulate", profiles, "--gpus", "1", "--apps", "camera,robot", "--log-level", "debug"],
    ...files,
  ]);
});
afterAll(async () => {
  for (const end of open.splice(0).reverse()) await end();
  await up?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true });
});

const runFolder = (): string => join(up.runDirectory, new URL(up.url).port);
const logOf = (name: string): string => readFileSync(join(runFolder(), "logs", `${name}.log`), "utf8");
const credsOf = (user: string): string => join(runFolder(), "creds", `${user}.nk`);

async function client(app: string): Promise<Tutti> {
  const made = await connect({ servers: up.url, app, credentials: credsOf(`app-${app}`), tls: { caFile: ca } });
  open.push(() => made.close());
  return made;
}
async function as(user: string, inboxPrefix?: string): Promise<{ nats: NatsConnection; denied: string[] }> {
  const nats = await connectNats({
    servers: up.url,
    name: user,
    credentials: readCredentials(credsOf(user)),
    tls: { caFile: ca },
    ...(inboxPrefix !== undefined && { inboxPrefix }),
  });
  open.push(() => nats.close());
  const denied: string[] = [];
  nats.control.onStatus((status) => status.kind === "permission-denied" && denied.push(status.subject));
  return { nats, denied };
}
const flushed = ({ control }: NatsConnection): Promise<unknown> => new Promise((resolve) => control.flush(resolve));

/** The ingress, by its heartbeats. */
async function ingress(): Promise<Heartbeat> {
  const { nats } = await as("admin");
  return new Promise((resolve) => {
    const reader = new FrameReader().on(Heartbeat, resolve);
    const listening = nats.control.subscribe(subjects.beat("ingress"), ({ payload }) => {
      reader.read(payload);
      listening.stop();
    });
  });
}

const X = { name: "x", type: "FP32", dims: [1, 1], data: new Uint8Array(new Float32Array([7]).buffer) } as const;
const payload = encodeRequest("binary", { inputs: [X] });

test("an application is served over TLS, and so are the commands of a second shell", async () => {
  const camera = await client("camera");
  // The deadline suits a busy machine; batches start as late as it allows, so the requests are sent together.
  const asked = [1, 2, 3, 4, 5].map((value) => camera.infer("quick", { x: [[value]] }, { slo: "3s", retries: 2 }));
  for (const { outputs } of await Promise.all(asked)) expect(outputs).toBeDefined();
  // The inputs went straight to the executor, over TLS as well.
  expect(logOf("executor-0")).not.toMatch(/data plane|another way/);
  const listed = await up.command("models", "--json");
  expect([listed.code, listed.stdout.includes("quick")]).toEqual([0, true]);
});

test("nobody comes in without credentials, without TLS, or to the data plane in plain text", async () => {
  const code = (connecting: Promise<NatsConnection>) =>
    connecting.then(String, (error: { code: string }) => error.code);
  expect(await code(connectNats({ servers: up.url, name: "x", tls: { caFile: ca } }))).toBe("TUTTI_FORBIDDEN");
  const credentials = readCredentials(credsOf("app-camera"));
  expect(await code(connectNats({ servers: up.url, name: "x", credentials }))).toBe("TUTTI_UNAVAILABLE");

  const { address } = await ingress();
  expect(address?.tls).toBe(true);
  const { host = "", port = 0 } = address ?? {};
  const heard = await new Promise<number>((resolve) => {
    let bytes = 0;
    const socket = connectPlain({ host, port }, () => socket.write("DT\u0001\u0001".repeat(64)));
    socket.on("data", (chunk) => (bytes += chunk.byteLength));
    socket.on("error", () => undefined);
    socket.on("close", () => resolve(bytes));
  });
  expect(heard).toBeLessThan(16); // at most a TLS alert
  const authorized = await new Promise<boolean>((resolve, reject) => {
    const socket = connectTls({ host, port, ca: readFileSync(ca, "utf8") }, () => {
      resolve(socket.authorized);
      socket.destroy();
    });
    socket.on("error", reject);
  });
  expect(authorized).toBe(true);
});

test("an application can't have its answer sent to another one's inbox or inside, nor hear another's", async () => {
  const [camera, robot] = [await as("app-camera"), await as("app-robot")];
  const stolen: string[] = [];
  robot.nats.control.subscribe("_INBOX.robot.>", ({ subject }) => void stolen.push(subject));
  camera.nats.control.subscribe("_INBOX.robot.>", ({ subject }) => void stolen.push(subject));
  await flushed(robot.nats);
  const inside = [subjects.role("batcher"), "$KV.tutti_models.quick", "$JS.API.STREAM.DELETE.KV_tutti_models"];
  const replies = ["_INBOX.robot.x", "_INBOX.robot.>", "_INBOX.cameras.x", "_INBOX_ranker.x", "$SRV.PING", ...inside];
  for (const reply of replies) camera.nats.bulk.publish(inferSubject("quick", "camera"), payload, { reply });
  // This request follows the others on the same connection: answers to them would have come before.
  const answer = await new Promise((resolve) =>
    camera.nats.bulk.request(inferSubject("quick", "camera"), payload, { timeoutMs: 5_000 }, resolve),
  );
  expect(answer).toHaveProperty("payload");
  await flushed(robot.nats);
  expect(stolen).toEqual([]);
  expect(camera.denied).toEqual(["_INBOX.robot.>"]);
  expect((await up.command("models", "--json")).stdout).toContain("quick");
});

test("whatever an application says inside, or as another application, the server refuses", async () => {
  const { nats, denied } = await as("app-camera");
  const key = actorKey(123_456);
  const never = [
    ...[
      inferSubject("quick", "robot"),
      "cancel.robot",
      subjects.actor(key),
      subjects.bulk(key),
      subjects.bulkReply(key),
    ],
    ...[subjects.role("executor"), subjects.beat("ranker"), "$KV.tutti_leases.ranker.main", "$SRV.PING"],
  ];
  for (const subject of never) nats.control.publish(subject, payload);
  await until(() => denied.length >= never.length);
  expect(denied).toEqual(never);
});

test("who has an executor's credentials and no token pulls nothing, and what it brings as results is nobody's answer", async () => {
  const { key } = await ingress();
  const { nats } = await as("executor", roleInboxPrefix("executor"));
  const executor = actorKey(987_654_321);
  const thief = new NatsDataClient({ bus: nats.bulk, cluster: CLUSTER, key: executor });
  open.push(() => new Promise<void>((resolve) => thief.close(resolve)));
  const camera = await client("camera");
  const answer = camera.infer("slow", { x: [[42]] });
  const claim = { executor, gpu: 0, thread: 64, batchId: 1, batcher: 5, token: new Uint8Array(TOKEN_BYTES) };
  const seqs = Array.from({ length: 64 }, (_, i) => i + 1);
  const pull = (): Promise<PullOutcome> =>
    new Promise((resolve) => thief.pull({ key: key, address: undefined }, { ...claim, seqs }, 5_000, resolve));
  expect(await pull()).toEqual({ failure: "forbidden" });
  const forged: ResultBatch = {
    ...claim,
    batchSize: 1,
    startedAt: instant(1),
    finishedAt: instant(2),
    run: micros(1),
    items: seqs.map((seq) => ({ seq, outputs: encodeTensors([{ ...X, name: "y" }]), code: 0, text: "" })),
  };
  for (const batchId of [1, 2, 3]) thief.push({ key: key, address: undefined }, { ...forged, batchId });
  expect(await pull()).toEqual({ failure: "forbidden" }); // after the pushes on the same connection: they were received
  const settled = await Promise.race([answer.then(() => "answered"), Promise.resolve("waiting")]);
  expect(settled).toBe("waiting");
  expect((await answer).outputs["y"]).not.toMatchObject({ data: new Float32Array([7]) });
});

test("no seed, key or token stands in any log, nor in what tutti up prints", async () => {
  const creds = readdirSync(join(runFolder(), "creds")).map((name) =>
    readFileSync(join(runFolder(), "creds", name), "utf8"),
  );
  const seeds = creds.map((text) => /^SU\w+$/m.exec(text)?.[0] ?? "");
  expect(seeds.every((seed) => seed.length === 58)).toBe(true);
  const keys = ["ca-key.pem", "nats-key.pem"].map((name) => readFileSync(join(folder, "auth", "tls", name), "utf8"));
  const lines = keys.flatMap((pem) => pem.split("\n").filter((line) => line.length > 20 && !line.startsWith("---")));
  const password = /password: "([^"]+)"/.exec(readFileSync(join(runFolder(), "nats.conf"), "utf8"))?.[1];
  const secrets = [...seeds, ...lines, ...(password === undefined ? [] : [password])];
  const logs = readdirSync(join(runFolder(), "logs")).map((name) =>
    readFileSync(join(runFolder(), "logs", name), "utf8"),
  );
  const said = [...logs, JSON.stringify(up.events)].join("\n");
  expect(said.length).toBeGreaterThan(1_000);
  expect(secrets.filter((secret) => said.includes(secret))).toEqual([]);
  expect(said).not.toMatch(/\bS[UAO][A-Z2-7]{56}\b|PRIVATE KEY|\beyJ[\w-]{20,}\./);
});
