/** A restricted connection of a bus: part of its contract (bus.suite.ts). */
import type { Bus } from "@tutti/ports/bus";
import { expect, test } from "vitest";
import { Heard, bytes, flushed, listen, until } from "./bus-tools.ts";

/**
 * @param buses - two connections of one network
 * @param connectRestricted - see `BusNetwork`
 */
export function busRestrictions(
  name: string,
  buses: () => readonly [Bus, Bus],
  connectRestricted: () => Promise<Bus>,
): void {
  test(`${name}: what may not be published or subscribed to is reported, and everything else goes on`, async () => {
    const [a, b] = buses();
    const restricted = await connectRestricted();
    const statuses = listen(restricted);
    const denied = (part: string) =>
      until(() => statuses.some((status) => status.kind === "permission-denied" && status.subject.includes(part)));
    const secret = new Heard();
    restricted.subscribe("closed.in", secret.take);
    await denied("closed.in");
    const outside = new Heard();
    b.subscribe("closed.out", outside.take);
    const open = new Heard();
    restricted.subscribe("open.x", open.take);
    await Promise.all([flushed(b), flushed(restricted)]);
    restricted.publish("closed.out", bytes("x"));
    await denied("closed.out");
    a.publish("closed.in", bytes("secret"));
    a.publish("open.x", bytes("fine"));
    await open.count(1);
    await flushed(b);
    expect([secret.texts, outside.texts]).toEqual([[], []]);
  });
}
