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
  DEAD_JOBS_STREAM,
  HEADER,
  JOB_HEADER,
  TuttiError,
  errorBody,
  jobSubject,
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
  const config = { key: actorKey(++lastKey), cluster: "main", host: "test", pid: process.pid, ...times };
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
  await until(async () => (await runnerNats.jobs.queued()).size === 0);
});

test("an id that has a result is not run again, also beyond the time in which the queue knows duplicates", async () => {
  expect(y(await (await submitted("again", 1))!.result())).toBe(2);
  const operator = await as("admin");
  const message = { headers: { [JOB_HEADER.id]: "again", [HEADER.messageId]: "another" }, payload: new Uint8Array(0) };
  await operator.jobs.submit(jobSubject("mlp", "camera"), message);
  await until(async () => (await operator.jobs.queued()).size === 0);
  expect(countOf("again")).toBe(1);
});

test("an application reads its own results and puts jobs into the queue in its own name only", async () => {
  expect(y(await (await submitted("mine", 3))!.result())).toBe(6);
  const robot = new TuttiClient((await as("app-robot")).bulk, { app: "robot" });
  const other = { app: "camera" };
  await expect(robot.jobs.submit("mlp", { x: new Float32Array(1) }, other)).rejects.toThrow("did not answer");
  await expect(robot.jobs.job("mlp", "mine", other).peek()).rejects.toThrow("did not answer");
  await expect(robot.jobs.job("mlp", "mine", other).result({ withinMs: 300 })).rejects.toThrow("no result after");
  expect(await robot.jobs.job("mlp", "mine").peek()).toBeUndefined();
  expect(denied.splice(0).map((line) => line.split("$").pop())).toEqual(
    expect.arrayContaining(["app-robot: jobs.mlp.camera", "KV.tutti_results.camera.mlp.mine"]),
  );
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
  expect(letter).toMatchObject({ subject: "deadjobs.mlp.camera", headers: { [JOB_HEADER.id]: "bad" } });
  expect(letter!.headers[JOB_HEADER.deadReason]).toBe("x has 1 number, not 256");

  // The operator puts it back once the model is right.
  react = twice;
  await operator.jobs.forgetResult(resultSubject("camera", "mlp", "bad"));
  expect(await job.peek()).toBeUndefined();
  const result = job.result();
  const { headers, payload, seq } = letter!;
  await operator.jobs.submit("jobs.mlp.camera", { headers: { ...headers, [HEADER.messageId]: `bad.${seq}` }, payload });
  await operator.jobs.removeDead(seq);
  expect(y(await result)).toBe(10);
  expect(await lettersOf(operator)).toEqual([]);
}, 20_000);

test("malformed messages become dead letters; none stops the runner", async () => {
  const operator = await as("admin");
  const payload = new TextEncoder().encode("x");
  await operator.jobs.submit("jobs.mlp.camera", { headers: { [HEADER.messageId]: "no.id" }, payload });
  await operator.jobs.submit("jobs.mlp.camera", { headers: { [HEADER.slo]: "soon" }, payload });
  await operator.jobs.submit("jobs.m$p.camera", { headers: {}, payload });
  await operator.jobs.submit("jobs.mlp.camera", { headers: { [HEADER.slo]: "1us" }, payload });
  await until(async () => (await operator.jobs.queued()).size === 0);
  const letters = await lettersOf(operator);
  expect(letters.map(({ headers }) => headers[JOB_HEADER.deadCode]).sort()).toEqual([
    "TUTTI_DEADLINE_EXCEEDED",
    ...Array.from({ length: 3 }, () => "TUTTI_INVALID_INPUT"),
  ]);
  for (const { seq } of letters) await operator.jobs.removeDead(seq);
  expect((await operator.jobs.dead()).size).toBe(0);
  expect(DEAD_JOBS_STREAM).toBe("tutti_dead_jobs");
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
