/** Size hints, from a publisher's header to the plans of its batcher. */
import { HEADER, RequestArrived, SIZE_HINT_MAX, subjectsOf } from "@tutti/protocol";
import { millis, seconds } from "@tutti/units";
import { FrameReader } from "@tutti/wire";
import fc from "fast-check";
import { expect, test } from "vitest";
import { echoRequest, readEcho } from "../fixtures/actor-cluster/echo-model.ts";
import { VirtualCluster } from "./virtual-cluster.ts";

function serving() {
  const cluster = new VirtualCluster();
  cluster.addModel({ name: "m", alphaMs: 1, betaMs: 5, sloMs: 50 });
  cluster.run(seconds(3));
  const units: number[] = [];
  const reader = new FrameReader().on(RequestArrived, (arrival) => void units.push(arrival.units));
  const tap = cluster.network.connect({ name: "tap" });
  tap.subscribe(`${subjectsOf("main").prefix}.to.*`, ({ payload }) => void reader.read(payload));
  const bus = cluster.network.connect({ name: "outside" });
  /** @returns the answer's status, and the hint as the batcher received it; undefined where no request reached it */
  const ask = (size: string | undefined): { status: string; units: number | undefined } => {
    const statuses: string[] = [];
    const inbox = bus.newInbox();
    bus.subscribe(inbox, (delivery) => void statuses.push(readEcho(delivery).status));
    const { payload, headers } = echoRequest(1, millis(50));
    if (size !== undefined) headers[HEADER.size] = size;
    units.length = 0;
    bus.publish("infer.m.app", payload, { reply: inbox, headers });
    cluster.run(millis(60));
    expect([statuses.length, units.length <= 1]).toEqual([1, true]);
    return { status: statuses[0]!, units: units[0] };
  };
  return { ask };
}

test("a size hint reaches the batcher as it was given; without one a model of fixed shapes has none", () => {
  const { ask } = serving();
  expect(ask("320")).toEqual({ status: "ok", units: 320 });
  expect(ask("0.125")).toEqual({ status: "ok", units: 0.125 });
  expect(ask(undefined)).toEqual({ status: "ok", units: 0 });
});

test("whatever stands in the header, the request is refused or its hint is in range, and the next one is served", () => {
  const { ask } = serving();
  const header = fc.oneof(
    fc.string({ unit: fc.constantFrom(..."0123456789.-+eExInfityNa ,_") }),
    fc.double().map(String),
    fc.constantFrom("", " ", "0", "-0", "1e999", "NaN", "Infinity", "0x10", "5e-324", "1e9", "1000000000.1"),
  );
  fc.assert(
    fc.property(header, (text) => {
      const { status, units } = ask(text);
      if (units === undefined) expect(status).toBe("TUTTI_INVALID_INPUT");
      else expect([status, units > 0 && units <= SIZE_HINT_MAX, units]).toEqual(["ok", true, Number(text)]);
    }),
    { numRuns: 200 },
  );
  expect(ask("7")).toEqual({ status: "ok", units: 7 });
});
