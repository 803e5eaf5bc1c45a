/** Payloads of which a NATS connection says that they may be kept without a copy. */
import type { Delivery } from "@tutti/ports/bus";
import { expect, test } from "vitest";
import { withNats } from "../fixtures/nats.ts";
import { until } from "./bus-tools.ts";

const nats = withNats();
const MESSAGES = 200;

test("nothing that comes later writes to the memory of a kept payload, however the reads cut the messages", async () => {
  const [sender, receiver] = [await nats().connect(), await nats().connect()];
  const kept: Uint8Array[] = [];
  let count = 0;
  receiver.bulk.subscribe("rows", ({ payload, isOwned }: Delivery) => {
    count++;
    if (isOwned !== true) return;
    expect(payload.byteLength * 2).toBeGreaterThanOrEqual(payload.buffer.byteLength);
    kept.push(payload);
  });
  await new Promise<boolean>((resolve) => receiver.bulk.flush(resolve));
  const bytesOf = (i: number): number => (i % 4 === 0 ? 10 + i : 30_000 + 1_013 * i);
  for (let i = 0; i < MESSAGES; i++) sender.bulk.publish("rows", new Uint8Array(bytesOf(i)).fill(i));
  await until(() => count === MESSAGES);
  // Most large ones; others lie in more memory.
  expect(kept.length).toBeGreaterThan(MESSAGES / 2);
  const asSent = new Map(Array.from({ length: MESSAGES }, (_, i) => [bytesOf(i), i]));
  for (const payload of kept)
    expect(payload).toEqual(new Uint8Array(payload.byteLength).fill(asSent.get(payload.byteLength)!));
  await Promise.all([sender.close(), receiver.close()]);
});
