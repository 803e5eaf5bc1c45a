import { type Instant, instant } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { Lookahead } from "./lookahead.ts";
import type { Candidate } from "../messages.ts";

const MODELS = 4;

/** A candidate that is due at that moment; Infinity: the model withdraws its offer. */
function offerDue(at: number): Candidate {
  return {
    batchSize: at === Infinity ? 0 : 3,
    execAt: (at === Infinity ? 0 : at + 40) as Instant,
    delay: 40,
  } as Candidate;
}

const later = fc.oneof(fc.nat(5), fc.nat(300));
const step = fc.oneof(
  fc.record({ do: fc.constant("comes" as const), model: fc.nat(MODELS - 1), in: later }),
  fc.record({
    do: fc.constant("offers" as const),
    model: fc.nat(MODELS - 1),
    in: fc.oneof(later, fc.constant(Infinity)),
  }),
  fc.record({ do: fc.constant("voided" as const), model: fc.nat(MODELS - 1), in: fc.constant(0) }),
  { weight: 2, arbitrary: fc.record({ do: fc.constant("passes" as const), model: fc.constant(0), in: later }) },
);

/**
 * Reference for Lookahead. Per model it has the next arrival, the offer kept back, and the offer that the ranker has.
 */
class Oracle {
  readonly comesAt = new Array<number>(MODELS).fill(Infinity);
  readonly kept = new Array<number | undefined>(MODELS).fill(undefined);
  readonly told = new Array<number>(MODELS).fill(Infinity);

  silentUntil(model: number): number {
    return Math.min(this.kept[model] ?? Infinity, this.told[model]!);
  }
  offers(model: number, dueAt: number, now: number): boolean {
    const isTold = dueAt <= now || this.told[model]! <= now;
    this.kept[model] = isTold ? undefined : dueAt;
    if (isTold) this.told[model] = dueAt;
    return isTold;
  }
  tell(model: number): void {
    this.told[model] = this.kept[model]!;
    this.kept[model] = undefined;
  }
  lookAt(model: number): number {
    return this.kept[model] === undefined
      ? this.comesAt[model]!
      : Math.min(this.comesAt[model]!, this.silentUntil(model));
  }
}

/**
 * Does what Cluster does. It visits each model that is due for a look, takes its arrivals and reports its due offers.
 */
function look(ahead: Lookahead, oracle: Oracle, now: Instant): void {
  while (ahead.nextAt <= now) {
    const model = ahead.next;
    if (ahead.comesAt(model) <= now) ahead.comes(model, (oracle.comesAt[model] = Infinity) as Instant);
    else if (ahead.tells(model, now)) oracle.tell(model);
    ahead.settle(model);
    expect(
      ahead.nextAt,
      "a model that was looked at is not looked at again before there is a cause",
    ).toBeLessThanOrEqual(oracle.lookAt(model));
  }
}

test("whatever models offer and whenever requests come, each is looked at in time, and what is due has been told (LOOKAHEAD-1, LOOKAHEAD-2)", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200, size: "max" }), (steps) => {
      const ahead = new Lookahead(MODELS);
      const oracle = new Oracle();
      let now = 0;
      for (const one of steps) {
        const at = now + one.in;
        if (one.do === "passes") now = at;
        else if (one.do === "comes") ahead.comes(one.model, instant((oracle.comesAt[one.model] = at)));
        else if (one.do === "offers")
          expect(ahead.offers(one.model, offerDue(at), instant(now))).toBe(oracle.offers(one.model, at, now));
        else {
          ahead.voided(one.model);
          oracle.kept[one.model] = undefined;
          oracle.told[one.model] = Infinity;
        }
        if (one.do !== "passes") ahead.rearm(one.model);
        look(ahead, oracle, instant(now));
        for (let model = 0; model < MODELS; model++) {
          expect(ahead.silentUntil(model)).toBe(oracle.silentUntil(model));
          expect(ahead.nextAt).toBeLessThanOrEqual(oracle.lookAt(model));
          expect(oracle.comesAt[model]).toBeGreaterThan(now);
          if (oracle.kept[model] !== undefined) expect(oracle.silentUntil(model)).toBeGreaterThan(now);
        }
      }
    }),
  );
});

test("an answered grant voids what was offered: the model is silent until it offers anew, and nothing of it is told", () => {
  const ahead = new Lookahead(1);
  expect(ahead.offers(0, offerDue(10), instant(10))).toBe(true);
  expect(ahead.offers(0, offerDue(50), instant(5))).toBe(false);
  expect(ahead.silentUntil(0)).toBe(10);
  ahead.voided(0);
  expect(ahead.silentUntil(0)).toBe(Infinity);
  expect(ahead.telling(0)).toBe(false);
  expect(ahead.offers(0, offerDue(60), instant(20))).toBe(false);
  expect([ahead.silentUntil(0), ahead.tells(0, instant(59)), ahead.tells(0, instant(60))]).toEqual([60, false, true]);
});
