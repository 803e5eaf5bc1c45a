import { HEADER, type Heartbeat, SLO_US_MAX } from "@tutti/protocol";
import { type ActorKey, actorKey, after, instant, micros, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import type { ActorRuntime, CatalogModel } from "@tutti/actors/runtime";
import { JOB_HELD_FOR, checkTakesJobs, holdNoLonger, readIsJob } from "./job-admission.ts";
import { pendingRequest } from "../testing/pending-request.ts";

const AT = instant(1_000_000);
const BATCHER = actorKey(7);
const MODEL = { spec: { name: "m" }, lease: { batcher: BATCHER, term: 1 } } as CatalogModel;

test.each([
  { text: undefined, isJob: false },
  { text: "1", isJob: true },
])("the header $text makes a job: $isJob", ({ text, isJob }) => {
  const header = (name: string): string | undefined => (name === HEADER.job ? text : undefined);
  expect(readIsJob({ subject: "infer.m.a", payload: new Uint8Array(0), reply: undefined, header })).toBe(isJob);
});

test.each(["0", "true", ""])("the header %j says nothing that is understood", (text) => {
  const delivery = { subject: "infer.m.a", payload: new Uint8Array(0), reply: undefined, header: () => text };
  expect(() => readIsJob(delivery)).toThrow(expect.objectContaining({ code: "TUTTI_INVALID_INPUT" }) as Error);
});

test("a job with hours is held for as long as any request, and one with less for its own time", () => {
  const hours = pendingRequest({
    arrivedAt: AT,
    deadline: after(AT, micros(20 * SLO_US_MAX)),
    slo: micros(20 * SLO_US_MAX),
  });
  holdNoLonger(hours);
  expect([hours.deadline, hours.slo]).toEqual([after(AT, JOB_HELD_FOR), JOB_HELD_FOR]);
  const soon = pendingRequest({ arrivedAt: AT, deadline: after(AT, seconds(5)), slo: seconds(5) });
  holdNoLonger(soon);
  expect([soon.deadline, soon.slo]).toEqual([after(AT, seconds(5)), seconds(5)]);
});

test("jobs share the room of one application, whoever sends them", () => {
  const accounts = [1, 2].map((appId) => pendingRequest({ appId, isJob: true }).account);
  expect(new Set(accounts).size).toBe(1);
  expect(pendingRequest({ appId: 1 }).account).toBe(1);
});

interface Peer {
  readonly key: ActorKey;
  readonly role: "batcher" | "executor";
  readonly takesJobs?: boolean;
}
function check(...peers: readonly Peer[]): void {
  const some = (role: string, matches: (peer: Heartbeat) => boolean): boolean =>
    peers.some((peer) => peer.role === role && matches(peer as Heartbeat));
  checkTakesJobs({ registry: { some } } as unknown as ActorRuntime, MODEL);
}
const NEW = { takesJobs: true } as const;

test("jobs are refused while the model's batcher or any executor is of a release without them", () => {
  const [batcher, executor] = [
    { key: BATCHER, role: "batcher" } as const,
    { key: actorKey(8), role: "executor" } as const,
  ];
  expect(() => check({ ...batcher, ...NEW }, { ...executor, ...NEW })).not.toThrow();
  const again = expect.objectContaining({ code: "TUTTI_NOT_READY", retryable: true }) as Error;
  expect(() => check(batcher, { ...executor, ...NEW })).toThrow(again);
  expect(() => check({ ...batcher, ...NEW }, { ...executor, ...NEW }, { ...executor, key: actorKey(9) })).toThrow(
    again,
  );
  // Another batcher, which has none of these jobs, may be older.
  expect(() => check({ ...batcher, ...NEW }, { ...batcher, key: actorKey(6) }, { ...executor, ...NEW })).not.toThrow();
});
