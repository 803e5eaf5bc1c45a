import type { ThreadId } from "@tutti/units";
import { type MessageOf, packed } from "./fields.ts";

/** Most classes of requests in one message: (application, priority) pairs. */
export const SHARE_CLASSES_MAX = 512;

/**
 * Tells ingresses that a ModelThread is overloaded: only a part of these classes may still be sent to it. Requests that
 * it would refuse are so refused at once, at no cost. It is sent again several times a second while the overload lasts,
 * and holds only for a moment, so that no ingress goes on refusing for a dead batcher.
 */
export const SharesTold = packed<{
  readonly thread: ThreadId;
  readonly term: number;
  readonly classes: readonly {
    /** FNV-1a of the application's name. */
    readonly app: number;
    readonly priority: number;
    /** Fraction that may still be sent, 0 … 1. */
    readonly keep: number;
  }[];
}>({ tag: 90, name: "shares-told", from: "batcher", to: "ingress", repair: "the next one; without one all is sent" });
export type SharesTold = MessageOf<typeof SharesTold>;

/** Requests that an ingress refused because of SharesTold. Without it, the batcher would underestimate the demand. */
export const RequestsShed = packed<{
  readonly thread: ThreadId;
  readonly term: number;
  readonly classes: readonly { readonly app: number; readonly priority: number; readonly count: number }[];
}>({
  tag: 91,
  name: "requests-shed",
  from: "ingress",
  to: "batcher",
  repair: "none needed: it only informs an average",
});
export type RequestsShed = MessageOf<typeof RequestsShed>;
