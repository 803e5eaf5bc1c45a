import { type Tensor, TuttiError } from "@tutti/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import { SEQUENCE_WAITING_MAX, Sequences, type SequencesOptions } from "./sequences.ts";

/** A state of one byte: the number of finished requests. */
const state = (count: number): Tensor => ({ name: "s", type: "UINT8", dims: [1], data: Uint8Array.of(count) });
const { signal } = new AbortController();

interface Ask {
  readonly app?: string;
  readonly id?: string;
  readonly start?: boolean;
  readonly end?: boolean;
  /** Runs while the model does. */
  readonly meanwhile?: () => Promise<unknown>;
  readonly signal?: AbortSignal;
}
class Scene {
  now = 0;
  readonly sequences: Sequences;

  constructor(options: SequencesOptions = {}) {
    this.sequences = new Sequences({ now: () => this.now, ...options });
  }

  /** @returns the number of earlier requests in the sequence, or the code of the refusal */
  async ask({
    app = "shop",
    id = "1",
    start = false,
    end = false,
    meanwhile,
    signal: own = signal,
  }: Ask): Promise<number | string> {
    const step = { id, isStart: start, isEnd: end };
    try {
      return await this.sequences.run({ app, model: "m", step, initial: state(0), signal: own }, async (at) => {
        await meanwhile?.();
        const before = at.state.data[0]!;
        return { result: before, next: { state: state(before + 1), version: "1" } };
      });
    } catch (error) {
      return error instanceof TuttiError ? error.code : String(error);
    }
  }
}
const fails = (): Promise<never> => Promise.reject(new TuttiError("TUTTI_OVERLOADED", "busy"));

test("requests of one sequence run one after the other, each with the state that the last one left (SEQ-1)", async () => {
  const scene = new Scene();
  let running = 0;
  const slow = async (): Promise<void> => {
    expect(++running).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 2));
    running--;
  };
  const asked = [true, false, false, false].map((start) => scene.ask({ start, meanwhile: slow }));
  expect(await Promise.all(asked)).toEqual([0, 1, 2, 3]);
  expect(await scene.ask({ end: true })).toBe(4);
  expect([await scene.ask({}), scene.sequences.size]).toEqual(["TUTTI_INVALID_INPUT", 0]);
});

test("sequences of other ids and applications know nothing of each other, and a start begins anew", async () => {
  const scene = new Scene();
  expect([await scene.ask({ start: true }), await scene.ask({})]).toEqual([0, 1]);
  expect(await scene.ask({ app: "other" })).toBe("TUTTI_INVALID_INPUT");
  expect([await scene.ask({ id: "2", start: true }), await scene.ask({})]).toEqual([0, 2]);
  expect([await scene.ask({ start: true }), await scene.ask({})]).toEqual([0, 1]);
  expect([await scene.ask({ id: "3", start: true, end: true }), scene.sequences.size]).toEqual([0, 2]);
});

test("a request that fails leaves the state as it was, and a start that fails leaves none (SEQ-2)", async () => {
  const scene = new Scene();
  expect(await scene.ask({ start: true, meanwhile: fails })).toBe("TUTTI_OVERLOADED");
  expect([await scene.ask({}), scene.sequences.size]).toEqual(["TUTTI_INVALID_INPUT", 0]);
  await scene.ask({ start: true });
  expect(await scene.ask({ end: true, meanwhile: fails })).toBe("TUTTI_OVERLOADED");
  expect(await scene.ask({})).toBe(1);
  const failed = scene.ask({ start: true, meanwhile: fails });
  const behind = scene.ask({});
  expect([await failed, await behind, scene.sequences.size]).toEqual(["TUTTI_OVERLOADED", "TUTTI_INVALID_INPUT", 0]);
});

test("who goes away while it waits is passed over, and those behind it are served", async () => {
  const scene = new Scene();
  const gone = new AbortController();
  const first = scene.ask({ start: true, meanwhile: () => Promise.resolve(gone.abort()) });
  const asked = [first, scene.ask({ signal: gone.signal }), scene.ask({})];
  expect(await Promise.all(asked)).toEqual([0, "TUTTI_CANCELLED", 1]);
});

test("a newcomer takes the place of the longest idle sequence of its own application, or is refused (SEQ-3)", async () => {
  for (const options of [{ sequencesMax: 3 }, { bytesMax: 3 }] as const) {
    const scene = new Scene(options);
    await scene.ask({ app: "other", id: "o", start: true });
    await scene.ask({ id: "1", start: true });
    await scene.ask({ id: "2", start: true });
    await scene.ask({ id: "1" });
    expect(await scene.ask({ id: "3", start: true })).toBe(0);
    expect([await scene.ask({ id: "2" }), await scene.ask({ id: "1" })]).toEqual(["TUTTI_INVALID_INPUT", 2]);
    expect(await scene.ask({ app: "third", id: "1", start: true })).toBe("TUTTI_OVERLOADED");
    expect(await scene.ask({ app: "other", id: "o" })).toBe(1);
  }
  const own = new Scene({ appMax: 1 });
  let finish = (): void => undefined;
  const busy = own.ask({ start: true, meanwhile: () => new Promise<void>((resolve) => (finish = resolve)) });
  expect(await own.ask({ id: "2", start: true })).toBe("TUTTI_OVERLOADED");
  expect(await own.ask({ app: "other", start: true })).toBe(0);
  finish();
  expect([await busy, await own.ask({ id: "2", start: true }), own.sequences.size]).toEqual([0, 0, 2]);
});

test("so many requests of one sequence wait and no more, and one that is idle is forgotten", async () => {
  const scene = new Scene();
  const asked = Array.from({ length: SEQUENCE_WAITING_MAX + 1 }, (_, i) => scene.ask({ start: i === 0 }));
  const outcomes = await Promise.all(asked);
  expect(outcomes.filter((outcome) => outcome === "TUTTI_OVERLOADED")).toHaveLength(1);
  scene.now = 60_000;
  expect(await scene.ask({})).not.toBe("TUTTI_INVALID_INPUT");
  scene.now = 120_001;
  expect(await scene.ask({})).toBe("TUTTI_INVALID_INPUT");
  expect(scene.sequences.size).toBe(0);
});

test("however starts, steps and ends come, each is answered as a list of them would say", async () => {
  const step = fc.record({ id: fc.constantFrom("1", "2", "3"), kind: fc.constantFrom("start", "step", "end", "both") });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
      const scene = new Scene();
      const counts = new Map<string, number>();
      const expected = steps.map(({ id, kind }) => {
        const isStart = kind === "start" || kind === "both";
        const count = isStart ? 0 : counts.get(id);
        if (count === undefined) return "TUTTI_INVALID_INPUT";
        if (kind === "end" || kind === "both") counts.delete(id);
        else counts.set(id, count + 1);
        return count;
      });
      const asked = steps.map(({ id, kind }) =>
        scene.ask({ id, start: ["start", "both"].includes(kind), end: ["end", "both"].includes(kind) }),
      );
      expect(await Promise.all(asked)).toEqual(expected);
      expect(scene.sequences.size).toBe(counts.size);
    }),
  );
});
