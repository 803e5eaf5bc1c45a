/** Background jobs on a real NATS server: publisher, queue, runner and results, each with its own permissions. */
import { setTimeout as pause } from "node:timers/promises";
import { type Actor, type ActorPorts } from "@tutti/actors";
import { type NatsConnection, usersOf } from "@tutti/bus-nats";
import { type InferResult, TuttiClient } from "@tutti/client";
import { createJobRunner } from "@tutti/jobs";
import { NodeClock } from "@tutti/node/clock";
import type { DeadJob } from "@tutti/ports/jobs";
import { noTelemetry } from "@tutti/ports/telemetry";
import {
  CONTENT,
  HEADER,
  JOB_HEADER,
  TuttiError,
  errorBody,
  deadJobSubject,
  jobSubject,
  queuedJobSubject,
  resultSubject,
} from "@tutti/protocol";
import { actorKey, millis } from "@tutti/units";
import { decodeRequest, encodeTensors } from "@tutti/wire";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { withNats } from "../fixtures/nats.ts";

const nats = withNats({ users: usersOf({ cluster: "main", apps: ["camera", "robot"] }), withLocalUser: true });

const denied: string[] = [];
async function as(user: string | undefined): Promise<NatsConnection> {
  const connection = await nats().connect(user);
  for (const bus of [connection.control, connection.bulk])
    bus.onStatus((status) => status.kind === "permission-denied" && denied.push(`${user}: ${status.subject}`));
  return connection;
}

let clock: NodeClock;
let runnerNats: NatsConnection;
let runner: Actor;
let camera: TuttiClient;
let lastKey = 1_000;
/** Requests that the ingress got, by the message's id. */
const asked: string[] = [];
/** How the ingress answers; undefined: not at all. */
let react: (id: string, x: number) => number | TuttiError | undefined;
const twice = (_: string, x: number): number => 2 * x;

async function startRunner(): Promise<void> {
  runnerNats = await as("jobs");
  const ports = {
    bus: runnerNats.control,
    bulk: runnerNats.bulk,
    store: runnerNats.store,
    clock,
    telemetry: noTelemetry,
    randomBytes: (count: number) => crypto.getRandomValues(new Uint8Array(count)),
  } satisfies ActorPorts;
  const times = { heartbeatEvery: millis(200), peerTimeout: millis(1_000) };
  const config = {
    key: actorKey(++lastKey),
    cluster: "main",
    host: "test",
    pid: process.pid,
    replyScope: "app",
    ...times,
  } as const;
  await new Promise<void>(
    (resolve) => (runner = createJobRunner({ ...ports, jobs: runnerNats.jobs }, config, resolve)),
  );
}

beforeAll(async () => {
  clock = new NodeClock({ onSkew: () => undefined, onDegraded: () => undefined });
  await clock.ready();
  const [ingress, answers] = [await as("ingress"), await as("answers")];
  ingress.bulk.subscribe(
    "infer.*.*",
    (delivery) => {
      const { payload, reply } = delivery;
      const id = delivery.header(HEADER.messageId)!;
      asked.push(id);
      const { inputs } = decodeRequest("binary", new Uint8Array(payload));
      const x = new Float32Array(inputs[0]!.data.slice().buffer)[0]!;
      const y = react(id, x);
      if (y === undefined) return;
      if (y instanceof TuttiError) {
        const headers = { [HEADER.errorCode]: String(y.status), [HEADER.error]: y.message.replaceAll("\n", " ") };
        return void answers.control.publish(reply!, new TextEncoder().encode(JSON.stringify(errorBody(y))), {
          headers,
        });
      }
      const data = new Uint8Array(new Float32Array([y]).buffer);
      const headers = { [HEADER.contentType]: CONTENT.binary, [HEADER.version]: "1" };
      answers.control.publish(reply!, encodeTensors([{ name: "y", type: "FP32", dims: [1], data }]), { headers });
    },
    { queue: "ingress" },
  );
  camera = new TuttiClient((await as("app-camera")).bulk, { app: "camera" });
  react = twice;
  await startRunner();
  await until(async () => (await submitted("first")) !== undefined);
  await camera.jobs.job("mlp", "first").result();
});
afterAll(async () => {
  camera?.close();
  await new Promise<void>((resolve) => runner.drain(resolve));
  clock?.close();
});
afterEach(() => {
  react = twice;
  expect(denied.splice(0)).toEqual([]);
});

/** The queue is looked at once a second. */
async function until(holds: () => Promise<boolean> | boolean): Promise<void> {
  while (!(await holds())) await pause(20);
}

/** Undefined while no runner has made the queue. */
const submitted = (id: string, x = 1) =>
  camera.jobs.submit("mlp", { x: new Float32Array([x]) }, { id }).catch((error: TuttiError) => {
    if (error.code === "TUTTI_UNAVAILABLE") return undefined;
    throw error;
  });
async function lettersOf({ jobs }: NatsConnection): Promise<DeadJob[]> {
  const letters: DeadJob[] = [];
  for await (const letter of jobs.deadJobs()) letters.push(letter);
  return letters;
}
const y = (result: InferResult): unknown => (result.outputs["y"]!.data as Float32Array)[0];
const countOf = (id: string): number => asked.filter((one) => one === id).length;

test("a job is answered once, also to a process that asks for its result later", async () => {
  const job = (await submitted("once", 21))!;
  expect(job.isDuplicate).toBe(false);
  expect(y(await job.result())).toBe(42);
  expect((await submitted("once", 21))!.isDuplicate).toBe(true);
  expect(y(await camera.jobs.job("mlp", "once").result())).toBe(42);
  expect(y((await camera.jobs.job("mlp", "once").peek()) as InferResult)).toBe(42);
  expect(countOf("once")).toBe(1);
  await until(async () => (await runnerNats.jobs.queued()).jobs.size === 0);
});

test("an id that has a result is not run again, also beyond the time in which the queue knows duplicates", async () => {
  expect(y(await (await submitted("again", 1))!.result())).toBe(2);
  const message = { headers: { [JOB_HEADER.id]: "again" }, payload: new Uint8Array(0) };
  await runnerNats.jobs.enqueue(queuedJobSubject("mlp", "camera", 100), message, "another");
  await until(async () => (await runnerNats.jobs.queued()).jobs.size === 0);
  expect(countOf("again")).toBe(1);
});

test("an application reads its own results and puts jobs into the queue in its own name only", async () => {
  expect(y(await (await submitted("mine", 3))!.result())).toBe(6);
  const robot = new TuttiClient((await as("app-robot")).bulk, { app: "robot" });
  const other = { app: "camera" };
  const noAnswer = "no job runner answered"; // after ten seconds, in which the other is asked too
  await Promise.all([
    expect(robot.jobs.submit("mlp", { x: new Float32Array(1) }, other)).rejects.toThrow(noAnswer),
    expect(robot.jobs.job("mlp", "mine", other).peek()).rejects.toThrow(noAnswer),
  ]);
  await expect(robot.jobs.job("mlp", "mine", other).result({ withinMs: 300 })).rejects.toThrow("no result after");
  expect(await robot.jobs.job("mlp", "mine").peek()).toBeUndefined();
  expect(denied.splice(0)).toEqual(
    expect.arrayContaining([
      "app-robot: jobs.mlp.camera",
      "app-robot: jobresults.mlp.camera",
      "app-robot: $KV.tutti_results.camera.mlp.mine",
    ]),
  );
  robot.close();
}, 30_000);

test("no message of an application makes anybody answer, write or queue elsewhere (JOB-3)", async () => {
  const { bulk } = await as("app-robot");
  const robot = new TuttiClient(bulk, { app: "robot" });
  const { store } = await as("admin");
  const places = [
    "$KV.tutti_leases.model.1",
    resultSubject("camera", "mlp", "foreign"),
    queuedJobSubject("mlp", "camera", 100),
    "_INBOX.camera.x",
    "$JS.API.STREAM.PURGE.tutti_jobs",
  ];
  for (const reply of places)
    for (const subject of [jobSubject("mlp", "robot"), "jobresults.mlp.robot"])
      bulk.publish(subject, new TextEncoder().encode("foreign"), { reply, headers: { [JOB_HEADER.id]: "foreign" } });
  // Its own job comes after them all.
  expect(y(await (await robot.jobs.submit("mlp", { x: new Float32Array([1]) }, { id: "own" })).result())).toBe(2);
  expect(await new Promise((resolve) => store.get("tutti_leases", "model.1", resolve))).toBe("absent");
  expect(await camera.jobs.job("mlp", "foreign").peek()).toBeUndefined();
  expect([countOf("foreign"), (await runnerNats.jobs.queued()).jobs.size]).toEqual([0, 0]);
  // JetStream would answer to any of these subjects.
  const api = ["$JS.API.INFO", "$JS.API.DIRECT.GET.KV_tutti_results.$KV.tutti_results.robot.mlp.own", places[2]!];
  for (const user of ["app-robot", undefined]) {
    const { bulk: other } = await as(user);
    for (const subject of api) other.publish(subject, new Uint8Array(0), { reply: places[0]! });
    await new Promise((resolve) => other.flush(resolve));
    await pause(20);
    expect(denied.splice(0)).toEqual(api.map((subject) => `${user}: ${subject}`));
  }
  robot.close();
}, 30_000);

test("jobs of one id are the same job only in one application and for one model", async () => {
  const robot = new TuttiClient((await as("app-robot")).bulk, { app: "robot" });
  const inputs = (x: number) => ({ x: new Float32Array([x]) });
  const jobs = [
    await camera.jobs.submit("mlp", inputs(1), { id: "shared" }),
    await camera.jobs.submit("cnn", inputs(2), { id: "shared" }),
    await robot.jobs.submit("mlp", inputs(3), { id: "shared" }),
  ];
  expect(jobs.map(({ isDuplicate }) => isDuplicate)).toEqual([false, false, false]);
  expect((await Promise.all(jobs.map((job) => job.result()))).map(y)).toEqual([2, 4, 6]);
  robot.close();
}, 20_000);

test("a refusal that may be sent again is sent again, and a final one becomes a dead letter with its reason", async () => {
  let refusals = 0;
  react = (_, x) => (refusals++ === 0 ? new TuttiError("TUTTI_OVERLOADED", "full") : 2 * x);
  expect(y(await (await submitted("patient", 4))!.result())).toBe(8);
  expect(countOf("patient")).toBe(2);

  react = () => new TuttiError("TUTTI_INVALID_INPUT", "x has 1 number,\nnot 256");
  const job = (await submitted("bad", 5))!;
  const invalid = { code: "TUTTI_INVALID_INPUT", message: "x has 1 number,\nnot 256" };
  await expect(job.result()).rejects.toMatchObject(invalid);
  expect(await camera.jobs.job("mlp", "bad").peek()).toMatchObject(invalid);
  const operator = await as("admin");
  const [letter] = await lettersOf(operator);
  expect(letter).toMatchObject({
    subject: expect.stringMatching(/^deadjobs\.mlp\.camera\.INVALID_INPUT\.\d+$/) as string,
    headers: { [JOB_HEADER.id]: "bad" },
  });
  expect(letter!.headers[JOB_HEADER.deadReason]).toBe("x has 1 number, not 256");

  // Its publisher submits it anew once the model is right: it is the same job, and runs again.
  react = twice;
  const again = (await submitted("bad", 5))!;
  expect(again.isDuplicate).toBe(false);
  expect(y(await again.result())).toBe(10);
  expect(y((await again.peek()) as InferResult)).toBe(10);
  await operator.jobs.removeDead(letter!.seq);
  expect(await lettersOf(operator)).toEqual([]);
}, 20_000);

test("dead letters that are made while others are read are left for the next reader", async () => {
  const operator = await as("admin");
  let made = 0;
  const bury = (): Promise<void> => {
    const letter = { headers: { [JOB_HEADER.id]: "dead" }, payload: new Uint8Array(1) };
    return runnerNats.jobs.bury(
      deadJobSubject("mlp", "camera", { code: "TUTTI_INTERNAL", bytes: 100 }),
      letter,
      `made-${made++}`,
    );
  };
  for (let i = 0; i < 3; i++) await bury();
  let read = 0;
  for await (const { seq } of operator.jobs.deadJobs()) {
    read++;
    await bury();
    await operator.jobs.removeDead(seq);
  }
  expect(read).toBe(3);
  for (const { seq } of await lettersOf(operator)) await operator.jobs.removeDead(seq);
});

test("malformed messages become dead letters; none stops the runner", async () => {
  const operator = await as("admin");
  const payload = new TextEncoder().encode("x");
  const malformed: readonly (readonly [string, Record<string, string>])[] = [
    ["mlp", { [JOB_HEADER.id]: "no.id" }],
    ["mlp", { [JOB_HEADER.id]: "m1", [HEADER.slo]: "soon" }],
    ["m$p", { [JOB_HEADER.id]: "m2" }],
    ["mlp", { [JOB_HEADER.id]: "m3", [HEADER.slo]: "1us" }],
  ];
  for (const [index, [model, headers]] of malformed.entries())
    await runnerNats.jobs.enqueue(queuedJobSubject(model, "camera", 100), { headers, payload }, `malformed-${index}`);
  await until(async () => (await operator.jobs.queued()).jobs.size === 0);
  const letters = await lettersOf(operator);
  expect(letters.map(({ headers }) => headers[JOB_HEADER.deadCode]).sort()).toEqual([
    "TUTTI_DEADLINE_EXCEEDED",
    ...Array.from({ length: 3 }, () => "TUTTI_INVALID_INPUT"),
  ]);
  for (const { seq } of letters) await operator.jobs.removeDead(seq);
  expect((await operator.jobs.dead()).letters.size).toBe(0);
}, 20_000);

test("a runner that leaves gives its jobs back at once", async () => {
  react = () => undefined;
  const jobs = await Promise.all([1, 2, 3].map((x) => submitted(`held-${x}`, x)));
  await until(() => countOf("held-3") > 0);
  await new Promise<void>((resolve) => runner.drain(resolve));
  react = twice;
  const startedAt = performance.now();
  await startRunner();
  expect((await Promise.all(jobs.map((job) => job!.result()))).map(y)).toEqual([2, 4, 6]);
  // well below the time after which a dead runner's come back
  expect(performance.now() - startedAt).toBeLessThan(20_000);
}, 40_000);

test("a server that dies loses no job, and each result is that of its id", async () => {
  const ids = Array.from({ length: 200 }, (_, i) => `kill-${i}`);
  const jobs = await Promise.all(ids.map((id, i) => submitted(id, i)));
  await until(() => countOf("kill-40") > 0); // some are answered, some in flight, some queued
  await nats().kill();
  await nats().start();
  const results = await Promise.all(jobs.map((job) => job!.result()));
  expect(results.map(y)).toEqual(ids.map((_, i) => 2 * i));
}, 240_000); // nats-server 2.9 forgets acknowledgements: their jobs come again after 30 s
