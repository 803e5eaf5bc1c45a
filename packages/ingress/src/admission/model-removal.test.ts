import type { TuttiError } from "@tutti/protocol";
import { actorKey, threadId } from "@tutti/units";
import { expect, test } from "vitest";
import type { CatalogModel } from "@tutti/actors/runtime";
import type { PendingRequest } from "../requests/pending-request.ts";
import { ModelRemoval } from "./model-removal.ts";
import { pendingRequest } from "../testing/pending-request.ts";

test("what an executor gives back is refused with the reason if its model is quarantined, and left alone if it is served", () => {
  const settled: string[] = [];
  let state = "ready";
  const model = (): CatalogModel =>
    ({ spec: { name: "m", number: 1, version: "1" }, status: { state, reason: "it hung" } }) as unknown as CatalogModel;
  const removal = new ModelRemoval({
    settle: (_: PendingRequest, error: TuttiError) => void settled.push(`${error.code}: ${error.message}`),
    catalog: { ofThread: model, get: model },
    pending: { values: () => [] },
    lanes: { orphan: () => undefined, watches: () => false },
    directory: { get: () => undefined },
  } as unknown as ConstructorParameters<typeof ModelRemoval>[0]);
  const held = pendingRequest({ thread: threadId(1, 0), executor: actorKey(9), model: model() });
  expect([removal.givenBack(held), settled]).toEqual([false, []]);
  state = "quarantined";
  expect(removal.givenBack(held)).toBe(true);
  expect(settled).toEqual([expect.stringMatching(/^TUTTI_NOT_READY: .*it hung/)]);
});
