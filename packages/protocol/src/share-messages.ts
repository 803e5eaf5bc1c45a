import type { ThreadId } from "@tutti/units";
import { type MessageOf, packed } from "./fields.ts";

/** Classes of requests named in one message: (application, priority) pairs. */
export const SHARE_CLASSES_MAX = 512;

/**
 * A ModelThread is overloaded: of these classes only a part may still be sent to it, so that what it would refuse is
 * refused at once and costs nobody anything. Sent again several times a second while it lasts; holds for a moment, so
 * that nobody goes on refusing for a batcher that died.
 */
export const SharesTold = packed<{
  readonly thread: ThreadId;
  readonly term: number;
  readonly classes: readonly {
    /** FNV-1a of the application's name. */
    readonly app: number;
    readonly priority: number;
    /** 0 … 1. */
    readonly keep: number;
  }[];
}>({ tag: 90, name: "shares-told", from: "batcher", to: "ingress", repair: "the next one; without one all is sent" });
export type SharesTold = MessageOf<typeof SharesTold>;

/**
 * What an ingress refused because of SharesTold: without it the batcher would take the rest for all that is asked for.
 */
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
