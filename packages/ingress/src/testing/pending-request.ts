import { instant } from "@tutti/units";
import { fnv1a } from "@tutti/wire";
import { PendingRequest } from "../requests/pending-request.ts";

/** A request of the application `shop`, with these fields. */
export function pendingRequest(fields: Partial<PendingRequest> = {}): PendingRequest {
  const from = { target: "m", app: "shop", reply: "_INBOX.shop.1", arrivedAt: instant(1_000_000) };
  const request = new PendingRequest({ ...from, onSettled: undefined, ticket: undefined });
  return Object.assign(request, { appId: fnv1a(from.app), ...fields });
}
