import { VirtualClock } from "@tutti/ports/clock";
import type { Decoder } from "@tutti/ports/decode";
import { TuttiError } from "@tutti/protocol";
import { noTelemetry } from "@tutti/ports/telemetry";
import { actorKey, instant, millis } from "@tutti/units";
import { expect, test } from "vitest";
import type { CatalogModel } from "@tutti/actors/runtime";
import { RequestIntake, type RequestIntakeOptions } from "./request-intake.ts";
import { PendingRequests } from "./pending-requests.ts";
import { IngressFigures } from "../figures/ingress-figures.ts";
import { RefusalLog } from "../refusals/refusal-log.ts";
import { pendingRequest } from "../testing/pending-request.ts";

const AT = instant(1_000_000);

test("a request that the gateway refuses itself is listed and counted like any other, with its ids and its time", () => {
  const refusals = new RefusalLog(actorKey(7));
  const figures = new IngressFigures();
  const spec = { name: "see", number: 1, buckets: [{}] };
  const requestIntake = new RequestIntake({
    clock: new VirtualClock({ startAt: AT }),
    tracer: noTelemetry.tracer,
    catalog: { target: () => ({ spec }) },
    figures,
    refusals,
    onTurnedAway: () => undefined,
  } as unknown as RequestIntakeOptions);
  const refusal = new TuttiError("TUTTI_DEADLINE_EXCEEDED", "it was not received and decoded within 70 ms");
  const asked = { target: "see", app: "camera", tensors: [], id: "snap-1", slo: millis(70), refusal };
  const rest = { version: undefined, priority: undefined, size: undefined, wanted: undefined, traceparent: undefined };
  const outcomes: unknown[] = [];
  requestIntake.ask(
    { ...asked, ...rest, arrivedAt: instant(AT - 70_000) },
    { isStage: false, held: undefined, isGone: false, outcome: (outcome) => outcomes.push(outcome) },
  );
  expect(outcomes).toEqual([refusal]);
  const found = refusals.find({ ask: 1, most: 5, request: "snap-1" });
  expect(found.requests).toMatchObject([
    {
      ...{ model: "see", app: "camera", messageId: "snap-1", slo: 70_000, waited: 70_000 },
      refusal: { code: "TUTTI_DEADLINE_EXCEEDED", text: "it was not received and decoded within 70 ms" },
    },
  ]);
  expect(figures.refused.get("TUTTI_DEADLINE_EXCEEDED")).toBe(1);
});

test("a decoder that fails keeps no room: what was reserved for the body is released, and the request has its outcome", () => {
  const pending = new PendingRequests({ requestsMax: 2, bytesMax: 100, appRequestsMax: 2, appBytesMax: 100 });
  const failing: Decoder = {
    decode: () => {
      throw new Error("no thread can be had");
    },
  };
  const refusals = new RefusalLog(actorKey(7));
  const requestIntake = new RequestIntake({
    clock: new VirtualClock({ startAt: AT }),
    log: noTelemetry.log,
    decoder: failing,
    pending,
    figures: new IngressFigures(),
    refusals,
    onTurnedAway: () => undefined,
  } as unknown as RequestIntakeOptions);
  const model = { spec: { name: "m", number: 1, buckets: [{}] } } as unknown as CatalogModel;
  const outcomes: unknown[] = [];
  for (let i = 0; i < 5; i++)
    requestIntake.submit(
      pendingRequest({
        ...{ model, deadline: instant(AT + 50_000), slo: millis(50) },
        ticket: {
          ...{ isStage: true, held: undefined, isGone: false },
          outcome: (outcome) => outcomes.push((outcome as TuttiError).code),
        },
      }),
      new Uint8Array(60),
    );
  expect(outcomes).toEqual(Array(5).fill("TUTTI_INTERNAL"));
  expect(refusals.seen).toBe(5);
  expect([requestIntake.decoding, pending.bytes, pending.limitReached(1, 100)]).toEqual([0, 0, undefined]);
});
