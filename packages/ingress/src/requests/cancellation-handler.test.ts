import { fnv1a } from "@tutti/wire";
import { expect, test } from "vitest";
import { CancellationHandler } from "./cancellation-handler.ts";
import type { PendingRequest } from "./pending-request.ts";
import { pendingRequest } from "../testing/pending-request.ts";

const held = (reply: string, app: string, onSettled?: () => void): PendingRequest =>
  pendingRequest({ reply, app, appId: fnv1a(app), onSettled });

function handler(scope: "app" | "any" = "app") {
  const cancelled: string[] = [];
  const cancels = new CancellationHandler(scope, ({ reply }) => cancelled.push(reply));
  const cancel = (subject: string, payload: string | Uint8Array): void => {
    const bytes = typeof payload === "string" ? new TextEncoder().encode(payload) : payload;
    cancels.onDelivery({ subject, payload: bytes, reply: undefined, header: () => undefined });
  };
  return { cancels, cancel, cancelled };
}

test("a request is cancelled by the subject for its answer, by its own application", () => {
  const { cancels, cancel, cancelled } = handler();
  for (const reply of ["_INBOX.shop.1", "_INBOX.shop.2"]) cancels.hold(held(reply, "shop"));
  cancel("cancel.shop", "_INBOX.shop.2");
  expect(cancelled).toEqual(["_INBOX.shop.2"]);
});

test("no application cancels another's request, whatever it knows of it", () => {
  for (const scope of ["app", "any"] as const) {
    const { cancels, cancel, cancelled } = handler(scope);
    cancels.hold(held("_INBOX.shop.1", "shop"));
    cancel("cancel.camera", "_INBOX.shop.1");
    cancel("cancel.*", "_INBOX.shop.1");
    cancel("cancel.shop.x", "_INBOX.shop.1");
    expect(cancelled).toEqual([]);
  }
});

test("what is answered can't be cancelled, and of several with one reply subject the latest is meant", () => {
  const { cancels, cancel, cancelled } = handler();
  const [first, second] = [held("_INBOX.shop.1", "shop"), held("_INBOX.shop.1", "shop")];
  cancels.hold(first);
  cancels.hold(second);
  cancels.release(first);
  cancel("cancel.shop", "_INBOX.shop.1");
  expect(cancelled).toHaveLength(1);
  cancels.release(second);
  cancel("cancel.shop", "_INBOX.shop.1");
  expect(cancelled).toHaveLength(1);
});

test("a request whose body is being read is cancelled when it has been", () => {
  const { cancels, cancel } = handler();
  cancels.beginReading("_INBOX.shop.1", "shop");
  cancels.beginReading("_INBOX.shop.2", "shop");
  cancel("cancel.camera", "_INBOX.shop.1");
  cancel("cancel.shop", "_INBOX.shop.2");
  expect([cancels.endReading("_INBOX.shop.1"), cancels.endReading("_INBOX.shop.2")]).toEqual([false, true]);
  expect(cancels.endReading("_INBOX.shop.2")).toBe(false);
});

test("requests of our own are never cancelled, and payloads that are no reply subject cancel nothing (T8)", () => {
  const { cancels, cancel, cancelled } = handler("any");
  cancels.hold(held("_INBOX.warm-up.nobody", "warm-up", () => undefined));
  cancel("cancel.warm-up", "_INBOX.warm-up.nobody");
  for (const bad of [new Uint8Array([0xff, 0xfe]), new Uint8Array(1_000_000), "", "tutti.v1.main.all.batcher"])
    cancel("cancel.warm-up", bad);
  expect(cancelled).toEqual([]);
});
