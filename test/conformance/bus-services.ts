/** The NATS services protocol of a bus: part of its contract (bus.suite.ts). */
import { type Bus, type ServiceInfo, isBusFailure } from "@tutti/ports/bus";
import { expect, test } from "vitest";
import { NOTHING, flushed, request, textOf } from "./bus-tools.ts";

/** @param buses - two connections of one network */
export function busServices(name: string, buses: () => readonly [Bus, Bus], subject: () => string): void {
  test(`${name}: every level of the services protocol finds an announced actor, until it stops`, async () => {
    const [a, b] = buses();
    const service: ServiceInfo = {
      name: "batcher",
      id: subject().replaceAll(".", "-"),
      version: "0.1.0",
      description: "a batcher",
      metadata: { host: "here" },
      stats: () => ({ requests: 7, queued: 2.5 }),
    };
    const announced = b.announce(service);
    await flushed(b);
    const ask = async (to: string): Promise<Record<string, unknown>> => {
      const answer = await request(a, to, NOTHING);
      return isBusFailure(answer) ? { ...answer } : (JSON.parse(textOf(answer)) as Record<string, unknown>);
    };
    const identity = { name: "batcher", id: service.id, version: "0.1.0", metadata: { host: "here" } };
    for (const to of ["$SRV.PING", "$SRV.PING.batcher", `$SRV.PING.batcher.${service.id}`]) {
      expect(await ask(to)).toEqual({ type: "io.nats.micro.v1.ping_response", ...identity });
    }
    expect(await ask(`$SRV.INFO.batcher.${service.id}`)).toMatchObject({
      type: "io.nats.micro.v1.info_response",
      ...identity,
      description: "a batcher",
      endpoints: [{ name: "batcher", queue_group: "" }],
    });
    const stats = await ask(`$SRV.STATS.batcher.${service.id}`);
    expect(stats).toMatchObject({
      type: "io.nats.micro.v1.stats_response",
      endpoints: [{ name: "batcher", num_requests: 7, num_errors: 0, data: { requests: 7, queued: 2.5 } }],
    });
    expect(Number.isNaN(Date.parse(stats["started"] as string))).toBe(false);
    announced.stop();
    await flushed(b);
    expect(await ask(`$SRV.PING.batcher.${service.id}`)).toEqual({ failure: "no-responders" });
  });
}
