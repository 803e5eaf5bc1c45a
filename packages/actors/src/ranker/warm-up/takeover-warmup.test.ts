import { VirtualClock } from "@tutti/ports/clock";
import { CandidateOffered, GpuFreed, Heartbeat, subjectsOf } from "@tutti/protocol";
import { after, micros, millis, seconds } from "@tutti/units";
import { FrameReader } from "@tutti/wire";
import { expect, test } from "vitest";
import type { Actor, ActorConfig, ActorPorts } from "../../runtime/ports.ts";
import { createRanker } from "../ranker.ts";
import { type WarmupLead, warmUpLead } from "./takeover-warmup.ts";

const warmed: Omit<WarmupLead, "clock"> = {
  subCluster: "main",
  create: (ports: ActorPorts, config: ActorConfig, ready: () => void): Actor => {
    const more = { subCluster: "main", pingEvery: millis(5), ctrlFloor: micros(100) };
    return createRanker(ports, { ...config, ...more }, ready);
  },
  goesOn: () => true,
  grants: 500,
};

test("a warmup takes the lead, gives every grant that it should, and leaves nothing behind", () => {
  const clock = new VirtualClock();
  let given = 0;
  warmUpLead({ ...warmed, clock }, (grants) => (given = grants));
  expect(clock.runUntil(() => given > 0, after(clock.now(), seconds(4)))).toBe(true);
  expect(given).toBeGreaterThanOrEqual(500);
  expect(given).toBeLessThanOrEqual(502); // of the other two models
  clock.advanceBy(seconds(1));
  expect(clock.nextAt).toBe(Infinity);
});

test("it ends as soon as there is no time for it", () => {
  const clock = new VirtualClock();
  let [left, given] = [3, -1];
  warmUpLead({ ...warmed, clock, goesOn: () => left-- > 0, grants: 1e9 }, (grants) => (given = grants));
  expect(clock.runUntil(() => given >= 0, after(clock.now(), millis(100)))).toBe(true);
  expect(given).toBeGreaterThan(0);
  clock.advanceBy(seconds(1));
  expect(clock.nextAt).toBe(Infinity);
});

test("it has a cluster's kinds of keys, instants and heartbeats, accelerators and models (RH1)", () => {
  const clock = new VirtualClock();
  const heard = { freed: [] as GpuFreed[], candidates: [] as CandidateOffered[], beats: [] as Heartbeat[] };
  const create: WarmupLead["create"] = (ports, config, ready) => {
    const reader = new FrameReader()
      .on(GpuFreed, (freed) => heard.freed.push(freed))
      .on(CandidateOffered, (candidate) => heard.candidates.push({ ...candidate }))
      .on(Heartbeat, (beat) => heard.beats.push(beat));
    const subjects = subjectsOf(config.cluster);
    const roles = (["executor", "batcher", "ranker"] as const).map((role) => subjects.beat(role));
    for (const subject of [subjects.actor(config.key), ...roles])
      ports.bus.subscribe(subject, ({ payload }) => void reader.read(payload));
    return warmed.create(ports, config, ready);
  };
  let given = 0;
  warmUpLead({ ...warmed, clock, create }, (grants) => (given = grants));
  expect(clock.runUntil(() => given > 0, after(clock.now(), seconds(4)))).toBe(true);

  // V8 keeps numbers up to here in another way than larger ones.
  const smallIntegerMax = 2 ** 31 - 1;
  const { freed, candidates, beats } = heard;
  const keys = [...freed.map(({ executor }) => executor), ...beats.map(({ key }) => key)];
  const instants = [
    ...freed.map(({ freeAt }) => freeAt),
    ...candidates.flatMap(({ execAt, latest }) => [execAt, latest]),
    ...beats.map(({ sentAt }) => sentAt),
  ];
  expect(freed.length).toBeGreaterThan(100);
  expect(Math.min(...keys, ...instants)).toBeGreaterThan(smallIntegerMax);
  expect(new Set(freed.map(({ gpu }) => gpu)).size).toBeGreaterThan(1);
  expect(new Set(candidates.map(({ thread }) => thread)).size).toBeGreaterThan(1);
  expect(new Set(beats.map(({ role }) => role))).toEqual(new Set(["executor", "batcher", "ranker"]));
  expect(beats.some(({ yields }) => yields === true)).toBe(true);
  expect(beats.some(({ leaving }) => leaving)).toBe(true);
});
