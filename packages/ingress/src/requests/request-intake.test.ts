import { VirtualClock } from "@tutti/ports/clock";
import type { Decoder } from "@tutti/ports/decode";
import type { TuttiError } from "@tutti/protocol";
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
