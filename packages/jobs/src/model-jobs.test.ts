import type { JobQueue, QueuedJob } from "@tutti/ports/jobs";
import { noTelemetry } from "@tutti/ports/telemetry";
import { REQUEST_BYTES_MAX } from "@tutti/protocol";
import { expect, test } from "vitest";
import { JOBS_PENDING_MAX } from "./job-window.ts";
import { InputRoom, ModelJobs } from "./model-jobs.ts";

/** A queue of equal jobs, which hands over what it is asked for in the next turn. */
class FakeQueue {
  left: number;
  readonly allowed: number[] = [];
  readonly asked: number[] = [];
  readonly #bytes: number;

  constructor(left: number, bytes = 10) {
    this.left = left;
    this.#bytes = bytes;
  }

  readonly port = {
    allow: async (_: string, inFlightMax: number) => void this.allowed.push(inFlightMax),
    fetch: async (_: string, { count }: { readonly count: number }, onJob: (job: QueuedJob) => void) => {
      this.asked.push(count);
      await Promise.resolve();
      const given = Math.min(count, this.left);
      this.left -= given;
      for (let i = 0; i < given; i++)
        onJob({ payload: new Uint8Array(this.#bytes), retry: () => this.left++ } as never);
      return given;
    },
  } as unknown as JobQueue;
}

function scene(queue: FakeQueue, { window = (): number => 20, bytesMax = 1e9 } = {}) {
  const ends: (() => void)[] = [];
  let largest = 0;
  const model = new ModelJobs({
    model: "m",
    queue: queue.port,
    room: new InputRoom(bytesMax),
    log: noTelemetry.log,
    window,
    take: (_, ended) => {
      ends.push(ended);
      largest = Math.max(largest, model.inFlight);
    },
  });
  return { model, ends, largest: () => largest };
}
const settled = () => new Promise((resolve) => setImmediate(resolve));

test("a fetch asks for no more jobs than the window has room for, and sixteen at most", async () => {
  const queue = new FakeQueue(100);
  const { model, ends, largest } = scene(queue);
  model.look(100);
  await settled();
  expect(queue.asked).toEqual([16, 4]);
  ends.shift()!();
  await settled();
  expect(queue.asked).toEqual([16, 4, 1]);
  while (queue.left > 0) {
    for (const end of ends.splice(0)) end();
    await settled();
  }
  expect(largest()).toBe(20);
  expect(queue.allowed).toEqual([JOBS_PENDING_MAX]);
});

test("no runner holds more bytes of inputs than the bound says, whatever the jobs' sizes", async () => {
  const queue = new FakeQueue(100, REQUEST_BYTES_MAX);
  const { model, ends, largest } = scene(queue, { bytesMax: 3.5 * REQUEST_BYTES_MAX });
  model.look(100);
  await settled();
  expect(largest()).toBe(3);
  while (queue.left > 0) {
    for (const end of ends.splice(0)) end();
    await settled();
  }
  expect(largest()).toBe(3);
});

test("after a stop jobs that still come are given back", async () => {
  const queue = new FakeQueue(8);
  const { model, ends } = scene(queue);
  model.look(8);
  model.stop();
  await settled();
  expect([ends.length, queue.left]).toEqual([0, 8]);
});

test("a window of none fetches nothing, and the next look that finds one fetches", async () => {
  const queue = new FakeQueue(4);
  let allowed = 0;
  const { model } = scene(queue, { window: () => allowed });
  model.look(4);
  await settled();
  expect(queue.asked).toEqual([]);
  allowed = 20;
  model.look(4);
  await settled();
  expect(queue.asked).toEqual([4]);
});
