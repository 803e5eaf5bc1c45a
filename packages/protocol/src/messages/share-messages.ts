import { type MessageOf, packed } from "../fields.ts";
import { schema } from "../schema.ts";

/** Most classes of requests in one message: (application, priority) pairs. */
export const SHARE_CLASSES_MAX = 512;
/** Most requests of one class in one message. */
const SHED_COUNT_MAX = 10_000_000;

/**
 * Tells ingresses that a ModelThread is overloaded: only a part of these classes may still be sent to it. Requests that
 * it would refuse are so refused at once, at no cost. It is sent again several times a second while the overload lasts,
 * and holds only for a moment, so that no ingress goes on refusing for a dead batcher.
 */
export const SharesTold = packed(
  {
    thread: schema.thread,
    term: schema.count,
    classes: schema.list(
      schema.record({
        app: schema.app,
        priority: schema.whole(0, 255),
        /** Fraction that may still be sent, 0 … 1. */
        keep: schema.between(0, 1),
      }),
      SHARE_CLASSES_MAX,
    ),
  },
  { tag: 90, name: "shares-told", from: "batcher", to: "ingress", repair: "the next one; without one all is sent" },
);
export type SharesTold = MessageOf<typeof SharesTold>;

/** Requests that an ingress refused because of SharesTold. Without it, the batcher would underestimate the demand. */
export const RequestsShed = packed(
  {
    thread: schema.thread,
    term: schema.count,
    classes: schema.list(
      schema.record({ app: schema.app, priority: schema.whole(0, 255), count: schema.whole(1, SHED_COUNT_MAX) }),
      SHARE_CLASSES_MAX,
    ),
  },
  {
    tag: 91,
    name: "requests-shed",
    from: "ingress",
    to: "batcher",
    repair: "none needed: it only informs an average",
  },
);
export type RequestsShed = MessageOf<typeof RequestsShed>;
