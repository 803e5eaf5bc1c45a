/** Shares of applications in the streams of jobs, on a real NATS server with small streams. */
import { setTimeout as pause } from "node:timers/promises";
import { jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import type { Actor } from "@tutti/actors";
import { type NatsConnection } from "@tutti/bus-nats";
import { TuttiClient } from "@tutti/client";
import { createJobRunner } from "@tutti/jobs";
import { NodeClock } from "@tutti/node/clock";
import { noTelemetry } from "@tutti/ports/telemetry";
import { CONTENT, HEADER, TuttiError, errorBody } from "@tutti/protocol";
import { actorKey, millis } from "@tutti/units";
import { encodeTensors } from "@tutti/wire";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { withNats } from "../fixtures/nats.ts";

const nats = withNats();
const KIB = 1_024;
const STREAM_BYTES = 64 * KIB;
const JOB = new Float32Array(1_000); // 4,000 bytes
const RESULT = new Uint8Array(6_000);

let connection: NatsConnection;
let clock: NodeClock;
let runner: Actor;
const clients = new Map<string, TuttiClient>();
/** The ingress' answer to a job; undefined: it keeps the job. */
let react: () => Uint8Array | TuttiError | undefined = () => undefined;

const of = (app: string): TuttiClient => {
  let client = clients.get(app);
  if (client === undefined) clients.set(app, (client = new TuttiClient(connection.bulk, { app })));
  return client;
};

beforeAll(async () => {
  connection = await nats().connect();
  clock = new NodeClock({ onSkew: () => undefined, onDegraded: () => undefined });
  await clock.ready();
  await connection.jobs.open();
  const operator = await connect({ servers: nats().url });
  const manager = await jetstreamManager(operator);
  for (const stream of ["tutti_jobs", "KV_tutti_results", "tutti_dead_jobs"])
    await manager.streams.update(stream, { max_bytes: STREAM_BYTES, max_msg_size: -1 });
  await operator.close();
  connection.bulk.subscribe("infer.*.*", ({ reply }) => {
    const answer = react();
    if (answer === undefined) return;
    const [headers, payload] =
      answer instanceof TuttiError
        ? [
            { [HEADER.errorCode]: String(answer.status), [HEADER.error]: answer.message },
            new TextEncoder().encode(JSON.stringify(errorBody(answer))),
          ]
        : [
            { [HEADER.contentType]: CONTENT.binary, [HEADER.version]: "1" },
            encodeTensors([{ name: "y", type: "UINT8", dims: [answer.byteLength], data: answer }]),
          ];
    connection.bulk.publish(reply!, payload, { headers });
  });
  const ports = {
    ...{ bus: connection.control, bulk: connection.bulk, store: connection.store, clock, telemetry: noTelemetry },
    randomBytes: (count: number) => crypto.getRandomValues(new Uint8Array(count)),
  };
  const times = { heartbeatEvery: millis(200), peerTimeout: millis(1_000) };
  const config = { key: actorKey(1), cluster: "main", host: "test", pid: process.pid, ...times };
  await new Promise<void>(
    (resolve) =>
      (runner = createJobRunner({ ...ports, jobs: connection.jobs }, { ...config, replyScope: "any" }, resolve)),
  );
  await until(async () => (await submit("setup", { x: new Float32Array(1) })) === "taken");
});
afterAll(async () => {
  for (const client of clients.values()) client.close();
  await new Promise<void>((resolve) => runner.drain(resolve));
  clock?.close();
});
beforeEach(() => void (react = () => undefined));

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await pause(50);
}

async function submit(app: string, inputs = { x: JOB }): Promise<string> {
  try {
    await of(app).jobs.submit("mlp", inputs);
    return "taken";
  } catch (error) {
    return `${(error as TuttiError).code}: ${(error as Error).message}`;
  }
}

/** Submits until a job is refused. @returns how many were taken, and the refusal */
async function fill(app: string): Promise<readonly [taken: number, refusal: string]> {
  for (let taken = 0; ; taken++) {
    const answer = await submit(app);
    if (answer !== "taken") return [taken, answer];
  }
}

test("one application fills a half of the queue, the next ones half of what is left, and none all of it", async () => {
  const [first, refusal] = await fill("greedy");
  expect(first).toBeGreaterThanOrEqual(5); // of 16 that would fit
  expect(first).toBeLessThanOrEqual(8);
  expect(refusal).toMatch(/^TUTTI_OVERLOADED: greedy has .* of jobs in the queue, .* submit more when/);
  const second = (await fill("second"))[0];
  expect(second).toBeGreaterThanOrEqual(3);
  expect(await submit("third")).toBe("taken");
  expect((await fill("greedy"))[0]).toBe(0);
  react = () => new Uint8Array(8);
  await until(async () => (await connection.jobs.queued()).jobs.size === 0);
  await until(async () => (await submit("greedy")) === "taken");
}, 120_000);

test("an application whose results fill its share waits in the queue, and others get their answers", async () => {
  react = () => RESULT;
  const results = Array.from({ length: 8 }, () => submit("writer"));
  await Promise.all(results);
  await until(async () => /of results/.test(await submit("writer")));
  const job = await of("reader").jobs.submit("mlp", { x: JOB });
  expect((await job.result()).outputs["y"]!.data.length).toBe(RESULT.byteLength);
  const use = await connection.jobs.results();
  expect(use.bytesFree).toBeGreaterThan(0);
}, 120_000);

test("an application whose dead letters fill its share can't bury others' ones, and goes on itself", async () => {
  let asked = 0;
  react = () => {
    asked++;
    return new TuttiError("TUTTI_INVALID_INPUT", "none of these");
  };
  const failed = async (app: string, deadline: string): Promise<void> => {
    const job = await of(app).jobs.submit("mlp", { x: JOB }, { deadline });
    await expect(job.result()).rejects.toMatchObject({ code: "TUTTI_INVALID_INPUT" });
  };
  const letters = async (): Promise<number> => (await connection.jobs.dead()).letters.get("mlp")!.get("INVALID_INPUT")!;
  await failed("broken", "1h");
  for (let before = 0; before < (await letters());) {
    before = await letters();
    await failed("broken", "1h");
  }
  const [full, askedBefore] = [await letters(), asked];
  expect(full).toBeGreaterThan(4);
  // The publisher hears of its failure; the job waits for room until its deadline, and does not run meanwhile.
  await failed("broken", "2s");
  const queued = async (): Promise<number> => (await connection.jobs.queued()).jobsByApp.get("mlp")?.get("broken") ?? 0;
  expect(await queued()).toBe(2);
  await until(async () => (await queued()) === 1);
  expect([await letters(), asked]).toEqual([full, askedBefore + 1]);
  const { bytesByApp } = await connection.jobs.dead();
  expect(bytesByApp.get("broken")).toBeLessThan(STREAM_BYTES / 2 + 2 * 6 * KIB);
  await failed("careful", "1h");
  expect((await connection.jobs.dead()).bytesByApp.get("careful")).toBeGreaterThan(4_000);
}, 120_000);
