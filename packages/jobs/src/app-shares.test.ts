import type { QueueUse, StreamUse } from "@tutti/ports/jobs";
import fc from "fast-check";
import { expect, test } from "vitest";
import { AppShares } from "./app-shares.ts";
import { JOBS_PENDING_MAX } from "./job-window.ts";

const MIB = 1_048_576;

/** A stream of so many bytes with what applications hold. */
const use = (bytes: number, held: Readonly<Record<string, number>>): StreamUse => ({
  bytesByApp: new Map(Object.entries(held)),
  bytesFree: bytes - Object.values(held).reduce((sum, one) => sum + one, 0),
});

test("one application alone fills a half, and the next one may have a half of the rest", async () => {
  const shares = new AppShares();
  await shares.look("queue", async () => use(1_000, { shop: 500 }));
  expect([shares.hasRoom("queue", "shop"), shares.hasRoom("queue", "shop", 1)]).toEqual([true, false]);
  expect([shares.hasRoom("queue", "bank", 500), shares.hasRoom("queue", "bank", 501)]).toEqual([true, false]);
  expect([shares.hasRoom("results", "shop", 1e9), shares.hasRoom("dead", "shop", 1e9)]).toEqual([true, true]);
});

/** Each turn of an application adds a job of ten bytes where it may. */
async function filled(
  turns: Iterable<number>,
): Promise<{ held: Map<number, number>; free: number; shares: AppShares }> {
  const shares = new AppShares();
  await shares.look("queue", async () => use(10_000, {}));
  const held = new Map<number, number>();
  let free = 10_000;
  for (const turn of turns) {
    if (!shares.hasRoom("queue", `app-${turn}`, 10)) continue;
    shares.add("queue", `app-${turn}`, 10);
    held.set(turn, (held.get(turn) ?? 0) + 10);
    free -= 10;
  }
  return { held, free, shares };
}

test("applications that fill a stream together have the same share each, and leave as much", async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 20 }), async (apps) => {
      const { held, free } = await filled(Array.from({ length: 3_000 }, (_, i) => i % apps));
      for (const bytes of [...held.values(), free])
        expect(Math.abs(bytes - 10_000 / (apps + 1))).toBeLessThan(10 * apps);
    }),
  );
});

test("in whichever order they come, none has more than a half, and the next one may have half of the rest", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(4), { minLength: 100, maxLength: 2_000 }), async (order) => {
      const { held, free, shares } = await filled(order);
      expect(Math.max(...held.values())).toBeLessThanOrEqual(5_000);
      expect(free).toBeGreaterThan(0);
      expect(shares.hasRoom("queue", "next", free)).toBe(true);
    }),
  );
});

/** Adds bytes that arrive at once. */
function put(shares: AppShares, app: string, bytes: number): void {
  shares.add("queue", app, bytes);
  shares.arrived("queue", app, bytes);
}

test("what arrives while a look is under way counts until the next one, also when the look fails", async () => {
  const shares = new AppShares();
  await shares.look("queue", async () => use(1_000, {}));
  put(shares, "shop", 300);
  const looking = shares.look("queue", async () => use(1_000, { shop: 300 }));
  put(shares, "shop", 200);
  expect(shares.hasRoom("queue", "shop", 1)).toBe(false);
  await looking;
  expect([shares.hasRoom("queue", "shop"), shares.hasRoom("queue", "shop", 1)]).toEqual([true, false]);
  await expect(shares.look("queue", () => Promise.reject(new Error("away")))).rejects.toThrow("away");
  expect(shares.hasRoom("queue", "shop", 1)).toBe(false);
  await shares.look("queue", async () => use(1_000, { shop: 100 })); // some are done
  expect(shares.hasRoom("queue", "shop", 400)).toBe(true);
});

test("what is on its way during a whole look, which can't have seen it, still counts", async () => {
  const shares = new AppShares();
  await shares.look("queue", async () => use(1_000, {}));
  shares.add("queue", "shop", 500);
  await shares.look("queue", async () => use(1_000, {}));
  expect(shares.hasRoom("queue", "shop", 1)).toBe(false);
  shares.arrived("queue", "shop", 500);
  expect(shares.hasRoom("queue", "shop", 1)).toBe(false);
  await shares.look("queue", async () => use(1_000, { shop: 500 }));
  expect([shares.hasRoom("queue", "shop"), shares.hasRoom("queue", "shop", 1)]).toEqual([true, false]);
});

test("a second look at the same time would forget what the first one was to count", async () => {
  const shares = new AppShares();
  const looking = shares.look("dead", async () => use(1_000, {}));
  await expect(shares.look("dead", async () => use(1_000, {}))).rejects.toThrow("two looks at once");
  await looking;
  await shares.look("dead", async () => use(1_000, {}));
});

/** A queue with so many jobs of mlp by application. */
const queueOf = (streamUse: StreamUse, mlp: Readonly<Record<string, number>> = {}): QueueUse => ({
  ...streamUse,
  jobs: new Map([["mlp", Object.values(mlp).reduce((sum, one) => sum + one, 0)]]),
  jobsByApp: new Map([["mlp", new Map(Object.entries(mlp))]]),
});
const SHOP = { model: "mlp", app: "shop" };

/** The refusal of one more job, or nothing. */
function refusal(shares: AppShares, place = SHOP): string {
  try {
    shares.check(place, 1_000);
    return "";
  } catch (error) {
    expect(error).toMatchObject({ code: "TUTTI_OVERLOADED", retryable: true, retryAfterMs: 10_000 });
    return (error as Error).message;
  }
}

test("a refusal names what the application has, what is free, and what to do", async () => {
  const shares = new AppShares();
  expect(() => shares.check(SHOP, 1)).toThrow("has not reached the queue yet");
  await shares.lookAtQueue(async () => queueOf(use(1_024 * MIB, { shop: 512 * MIB })));
  expect(refusal(shares)).toBe(
    "shop has 512 MiB of jobs in the queue, and may hold no more than is free (512 MiB): submit more when some of them are done",
  );
  await shares.lookAtQueue(async () => queueOf(use(1_024 * MIB, {})));
  expect(refusal(shares)).toBe("");
  await shares.look("results", async () => use(10 * MIB, { shop: 6 * MIB }));
  expect(refusal(shares)).toMatch(
    /^shop has 6.0 MiB of results, and .*\(4.0 MiB\): results end after seven days; an operator/,
  );
});

test("jobs are taken though dead letters fill the application's share, or none could be put back", async () => {
  const shares = new AppShares();
  await shares.lookAtQueue(async () => queueOf(use(1_024 * MIB, {})));
  await shares.look("dead", async () => use(10 * MIB, { shop: 6 * MIB }));
  expect([shares.hasRoom("dead", "shop"), refusal(shares)]).toEqual([false, ""]);
});

test("an application leaves others as many of a model's places in the queue as it holds, however small its jobs", async () => {
  const shares = new AppShares();
  const half = JOBS_PENDING_MAX / 2;
  const free = use(1_024 * MIB, {});
  await shares.lookAtQueue(async () => queueOf(free, { shop: half - 1 }));
  expect(refusal(shares)).toBe("");
  shares.addJob(SHOP, 100);
  expect(refusal(shares)).toBe(
    `shop has ${half} jobs of mlp in the queue, and may hold no more than is free (${half}): submit more when some of them are done`,
  );
  expect([refusal(shares, { ...SHOP, app: "bank" }), refusal(shares, { ...SHOP, model: "cnn" })]).toEqual(["", ""]);
  await shares.lookAtQueue(async () => queueOf(free, { shop: half - 1 })); // before the job is there
  expect(refusal(shares)).toMatch(/^shop has/);
  shares.jobArrived(SHOP, 100);
  await shares.lookAtQueue(async () => queueOf(free, { shop: half - 2 }));
  expect(refusal(shares)).toBe("");
  await shares.lookAtQueue(async () => queueOf(free, { shop: half, bank: half / 2 }));
  expect(refusal(shares, { ...SHOP, app: "bank" })).toMatch(/^bank has 16384 jobs of mlp .*\(16384\)/);
});
