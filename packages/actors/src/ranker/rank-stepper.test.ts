import { VirtualClock } from "@tutti/ports/clock";
import { GpuGranted, type GpuState, LeaderAsked } from "@tutti/protocol";
import type { Candidate } from "@tutti/scheduling";
import { actorKey, after, gpuId, micros, millis, threadId } from "@tutti/units";
import { expect, test } from "vitest";
import type { ActorRuntime } from "../runtime/actor-runtime.ts";
import { RankStepper } from "./rank-stepper.ts";

const SELF = actorKey(1);
const [NEAR_BATCHER, FAR_BATCHER, NEAR_EXECUTOR, FAR_EXECUTOR] = [11, 12, 21, 22].map((key) => actorKey(key));

/**
 * A leader with an accelerator and a batcher on its own host, and on another. Its questions come back after a round
 * trip, if they do; with `links` its grants to near batchers are answered at once.
 */
function scene({ far = true, roundTripMs = 0, links = false } = {}) {
  const clock = new VirtualClock({ moves: true });
  const questions: LeaderAsked[] = [];
  const granted: { readonly to: number; readonly gpu: number }[] = [];
  const asked = (question: LeaderAsked): void => {
    questions.push(question);
    const answer = clock.alarm(() => stepper.cameBack(question.sentAt));
    if (roundTripMs > 0) answer.set(after(clock.now(), millis(roundTripMs)));
  };
  const runtime = {
    isNear: (peer: number) => peer === NEAR_BATCHER || peer === NEAR_EXECUTOR,
    send: (to: number, type: unknown, value: unknown) => {
      if (type === LeaderAsked) asked(value as LeaderAsked);
      if (type !== GpuGranted) return;
      const grant = value as GpuGranted;
      granted.push({ to, gpu: grant.gpu });
      if (links && runtime.isNear(actorKey(to)))
        clock
          .alarm(() => stepper.answered({ ...grant, used: false, freeAt: clock.now() }))
          .set(after(clock.now(), micros(50)));
    },
    onPacked: () => undefined,
    broadcast: () => undefined,
  } as unknown as ActorRuntime;
  const stepper = new RankStepper({
    ...{ self: SELF, runtime, clock, ctrlFloor: micros(100), isPlausible: () => true },
    stepDown: { isOver: false, leaveIfUnowed: () => undefined },
  });
  stepper.begin(1);
  const stateOf = (gpu: number): GpuState => {
    const told = { freeAt: clock.now(), epoch: 1, grantSeq: 0, subCluster: "main", serving: true, type: "t" };
    return { gpu: gpuId(gpu), ...told };
  };
  const report = (): void => {
    if (far) stepper.gpus.reported(FAR_EXECUTOR!, stateOf(0));
    stepper.gpus.reported(NEAR_EXECUTOR!, stateOf(1));
  };
  let offers = 0;
  const offer = (batcher: number, thread: number, inMs: number): void => {
    const execAt = after(clock.now(), millis(inMs));
    const times = { execAt, latest: after(execAt, millis(5)), delay: micros(100) };
    const candidate: Candidate = {
      ...{ thread: threadId(thread, 0), batchSize: 1, term: 1, offerSeq: ++offers, unfit: [] },
      ...times,
    };
    stepper.offered(candidate, actorKey(batcher));
  };
  report();
  return { clock, questions, granted, stepper, report, offer };
}

test("while the server answers nothing, only near accelerators are granted, to near batchers", () => {
  const { clock, questions, granted, stepper, report, offer } = scene();
  clock.advanceBy(millis(30));
  offer(FAR_BATCHER!, 1, 650);
  offer(NEAR_BATCHER!, 2, 650);
  clock.advanceBy(millis(450));
  expect(stepper.gpus.size).toBe(2); // a server that is busy for a moment costs nothing that is far
  clock.advanceBy(millis(150));
  expect(stepper.gpus.size).toBe(1);
  clock.advanceBy(millis(100));
  expect(granted).toEqual([{ to: NEAR_BATCHER, gpu: 1 }]);
  // The server is back: heartbeats tell of all accelerators again.
  expect(questions.length).toBeGreaterThan(5);
  stepper.cameBack(clock.now());
  report();
  expect(stepper.gpus.size).toBe(2);
  offer(FAR_BATCHER!, 1, 3);
  clock.advanceBy(millis(4));
  expect(granted.slice(1)).toEqual([{ to: FAR_BATCHER, gpu: 0 }]);
});

test("what is far is given up for a silent server however many grants are answered over links, and near ones go on", () => {
  const { clock, granted, stepper, report, offer } = scene({ links: true });
  for (let ms = 0; ms < 1_000; ms += 10) {
    if (ms < 500) report();
    offer(NEAR_BATCHER!, 1, 2);
    clock.advanceBy(millis(10));
  }
  expect(granted.length).toBeGreaterThan(95);
  expect(stepper.gpus.size).toBe(1);
  expect(granted.slice(-40).every(({ gpu }) => gpu === 1)).toBe(true);
});

test("a leader grants nothing before it knows that the server is silent, and all of its host from then on", () => {
  const { clock, granted, offer } = scene({ far: false });
  clock.advanceBy(millis(30));
  offer(NEAR_BATCHER!, 2, 1);
  clock.advanceBy(millis(15));
  expect(granted).toEqual([]);
  offer(NEAR_BATCHER!, 2, 1);
  clock.advanceBy(millis(10));
  expect(granted).toEqual([{ to: NEAR_BATCHER, gpu: 1 }]);
});

test("while the server answers nothing, what heartbeats bring back is given up again before it is granted", () => {
  const { clock, granted, stepper, report, offer } = scene();
  clock.advanceBy(millis(30));
  offer(NEAR_BATCHER!, 1, 1);
  clock.advanceBy(millis(600));
  expect(granted).toEqual([]); // too late for the first
  for (let beat = 0; beat < 10; beat++) {
    report();
    offer(FAR_BATCHER!, 2, 0);
    offer(NEAR_BATCHER!, 3, 0);
    clock.advanceBy(millis(20));
    expect(stepper.gpus.size).toBe(1);
  }
  expect(new Set(granted.map(({ to, gpu }) => `${to} ${gpu}`))).toEqual(new Set([`${NEAR_BATCHER} 1`]));
});

test("one need of a proof asks a few questions, however long they travel", () => {
  for (const [roundTripMs, far] of [
    [8, true],
    [24, true],
    [40, false],
  ] as const) {
    const { clock, questions, offer } = scene({ far, roundTripMs });
    clock.advanceBy(millis(30));
    offer(NEAR_BATCHER!, 1, 1);
    clock.advanceBy(millis(2_000));
    expect(questions.length).toBeGreaterThan(0);
    expect(questions.length).toBeLessThan(20);
  }
});
