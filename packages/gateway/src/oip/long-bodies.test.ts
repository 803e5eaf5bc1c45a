import { TuttiError } from "@tutti/protocol";
import { afterEach, beforeEach, expect, test } from "vitest";
import { LongBodies } from "./long-bodies.ts";

const json = Buffer.from(JSON.stringify({ inputs: [], id: "7", parameters: { padding: "x".repeat(1_000_000) } }));
let bodies: LongBodies;
beforeEach(() => {
  bodies = new LongBodies(1);
});
afterEach(() => bodies.close());
const read = (app: string, until = Infinity): Promise<string> =>
  bodies.readHead({ json }, { app, until }).then(
    ({ id }) => `id ${id}`,
    (error: unknown) => (error instanceof TuttiError ? error.code : String(error)),
  );

test("an application's long body waits for one of another's at most, however many that one sends", async () => {
  const order: string[] = [];
  const flood = Array.from({ length: 30 }, () => read("flood").then(() => order.push("flood")));
  expect(await read("shop")).toBe("id 7");
  expect(order.length).toBeLessThanOrEqual(2);
  await Promise.all(flood);
});

test("a long body that can't be read by its deadline is refused instead", async () => {
  expect(await read("shop", performance.now() - 1)).toBe("TUTTI_DEADLINE_EXCEEDED");
  expect(await read("shop", performance.now() + 1)).toBe("TUTTI_DEADLINE_EXCEEDED"); // a megabyte takes more
  expect(await read("shop", performance.now() + 60_000)).toBe("id 7");
});
