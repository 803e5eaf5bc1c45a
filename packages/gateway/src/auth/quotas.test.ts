import type { Quota } from "@tutti/admin/api-keys";
import { TuttiError } from "@tutti/protocol";
import { expect, test } from "vitest";
import { APP_BODIES_BYTES_MAX, QUOTA_APPS_MAX, Quotas } from "./quotas.ts";

function scene(quotas: Readonly<Record<string, Quota>>, appsMax?: number) {
  const clock = { ms: 0 };
  const kept = new Quotas(
    (app) => quotas[app] ?? quotas["*"],
    () => clock.ms,
    appsMax,
  );
  const take = (app: string, bytes = 0): (() => void) | TuttiError => {
    try {
      return kept.take(app, bytes);
    } catch (error) {
      return error as TuttiError;
    }
  };
  return { clock, take, kept };
}
const code = (outcome: (() => void) | TuttiError): string => (outcome instanceof TuttiError ? outcome.code : "taken");

test("an application asks as often as its quota says, with a second's worth at once, and is told when to come again", () => {
  const { clock, take } = scene({ shop: { requestsPerSecond: 4 } });
  expect(Array.from({ length: 5 }, () => code(take("shop")))).toEqual([
    ...Array<string>(4).fill("taken"),
    "TUTTI_QUOTA_EXCEEDED",
  ]);
  expect(take("shop")).toMatchObject({ status: 429, retryable: true, retryAfterMs: 250 });
  expect(code(take("camera"))).toBe("taken"); // other applications are not affected
  clock.ms = 250;
  expect([code(take("shop")), code(take("shop"))]).toEqual(["taken", "TUTTI_QUOTA_EXCEEDED"]);
  clock.ms = 3_600_000;
  expect(Array.from({ length: 6 }, () => code(take("shop"))).filter((one) => one === "taken")).toHaveLength(4);
});

test("what a request comes to beside its body counts as bytes, and not as another request", () => {
  const { take, kept } = scene({ shop: { requestsPerSecond: 1, bytesInFlight: 100 } });
  const giveBack = take("shop", 60) as () => void;
  const more = kept.hold("shop", 40);
  expect(() => kept.hold("shop", 1)).toThrow("100 bytes in flight");
  giveBack();
  more();
  expect(() => kept.hold("shop", 101)).toThrow("at most 100 bytes");
  // A request that its rate refuses leaves no bytes behind.
  expect(code(take("shop", 100))).toBe("TUTTI_QUOTA_EXCEEDED");
  kept.hold("shop", 100)();
});

test("less than one request a second is a quota too, and that of everybody counts for each by itself", () => {
  const { clock, take } = scene({ "*": { requestsPerSecond: 0.5 } });
  expect([code(take("a")), code(take("a")), code(take("b"))]).toEqual(["taken", "TUTTI_QUOTA_EXCEEDED", "taken"]);
  clock.ms = 2_000;
  expect(code(take("a"))).toBe("taken");
});

test("bytes count until they are given back, once, and what never fits is too large", () => {
  const { take } = scene({ shop: { bytesInFlight: 100 } });
  const first = take("shop", 60);
  expect(code(take("shop", 41))).toBe("TUTTI_QUOTA_EXCEEDED");
  expect(code(take("shop", 40))).toBe("taken");
  for (let i = 0; i < 2; i++) (first as () => void)();
  expect([code(take("shop", 61)), code(take("shop", 60))]).toEqual(["TUTTI_QUOTA_EXCEEDED", "taken"]);
  expect(code(take("shop", 101))).toBe("TUTTI_TOO_LARGE");
  // Without a quota no application gets all bytes of bodies.
  expect([code(take("b", APP_BODIES_BYTES_MAX)), code(take("b", 1))]).toEqual(["taken", "TUTTI_QUOTA_EXCEEDED"]);
});

test("of so many applications the use is known, and one with nothing in flight is forgotten first", () => {
  expect(QUOTA_APPS_MAX).toBeGreaterThan(1_000);
  const { take } = scene({}, 2);
  take("busy", 1);
  expect([code(take("a")), code(take("b")), code(take("c", 1))]).toEqual(["taken", "taken", "taken"]);
  expect(code(take("d"))).toBe("TUTTI_OVERLOADED");
});
