/**
 * Another release's codec between an actor of today and its bus and store: what it writes has more, or another form.
 */
import * as protocol from "@tutti/protocol";
import type { MessageType } from "@tutti/protocol";
import type { Bus, Delivery } from "@tutti/ports/bus";
import type { Entry, Store } from "@tutti/ports/store";
import { alignTo8 } from "@tutti/protocol";
import { fromJson, pack, toJson, unpack } from "@tutti/wire";

const FRAME_BYTES = 16;
const RECORD_BYTES = 8;
/** Tag of a message that only the other release has. */
const NEW_TAG = 900;
const PACKED = new Set(
  Object.values<unknown>(protocol)
    .filter((value): value is MessageType<unknown> => typeof value === "object" && value !== null && "tag" in value)
    .filter(({ fields }) => fields === undefined)
    .map(({ tag }) => tag),
);

/**
 * How the other release differs. `grown`: as the next one may (STORED-2), with more members, longer records and new
 * messages. `reformed`: as one after that may, whose values in the store have a form that today's readers don't know.
 */
export type Difference = "grown" | "reformed";

/** Kinds of values that actors make anew (STORED-4), by the start of their keys. */
const REFORMED = /^(ranker\.|model\.|placement$|report$)/;

/** A frame as the other release writes it. */
function grown(frame: Uint8Array): Uint8Array {
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
  const count = view.getUint32(4, true);
  const parts = [frame.slice(0, FRAME_BYTES), record(NEW_TAG, Uint8Array.of(1, 2, 3))];
  let at = FRAME_BYTES;
  for (let i = 0; i < count; i++) {
    const tag = view.getUint16(at, true);
    const start = at + RECORD_BYTES;
    const body = frame.slice(start, start + view.getUint32(at + 4, true));
    at = alignTo8(start + body.byteLength);
    parts.push(record(tag, PACKED.has(tag) ? grownMap(body) : Uint8Array.from([...body, 0, 0, 0, 0, 7, 7, 7, 7])));
  }
  new DataView(parts[0]!.buffer).setUint32(4, count + 1, true);
  return new Uint8Array(Buffer.concat(parts));
}

const grownMap = (body: Uint8Array): Uint8Array => pack({ ...(unpack(body) as object), since: { next: [1, "two"] } });

function record(tag: number, body: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(alignTo8(RECORD_BYTES + body.byteLength));
  const view = new DataView(bytes.buffer);
  view.setUint16(0, tag, true);
  view.setUint32(4, body.byteLength, true);
  bytes.set(body, RECORD_BYTES);
  return bytes;
}

function written(key: string, value: Uint8Array, difference: Difference): Uint8Array {
  const today = fromJson(value) as object;
  if (difference === "reformed" && REFORMED.test(key)) return toJson({ form: 2, now: today });
  return toJson({ ...today, since: { next: [1] } });
}

/** The other release reads its own form, and that before it. */
function read(entry: Entry): Entry {
  const value = fromJson(entry.value) as { readonly form?: number; readonly now?: object };
  return value.form === 2 ? { ...entry, value: toJson(value.now) } : entry;
}

export function otherBus(bus: Bus): Bus {
  const publish: Bus["publish"] = (subject, payload, options) =>
    bus.publish(subject, subject.startsWith("tutti.") && isFrame(payload) ? grown(payload) : payload, options);
  return new Proxy(bus, {
    get: (target, name): unknown => {
      const own: unknown = name === "publish" ? publish : Reflect.get(target, name, target);
      return typeof own === "function" && name !== "publish" ? own.bind(target) : own;
    },
  });
}
const isFrame = (payload: Delivery["payload"]): boolean => payload[0] === 0x75 && payload[1] === 0x74;

export function otherStore(store: Store, difference: Difference): Store {
  return {
    files: store.files,
    delete: (...call) => store.delete(...call),
    get: (bucket, key, done) =>
      store.get(bucket, key, (result) => done(typeof result === "object" && "value" in result ? read(result) : result)),
    put: (bucket, key, value, done) => store.put(bucket, key, written(key, value, difference), done),
    update: (bucket, key, value, revision, done) =>
      store.update(bucket, key, written(key, value, difference), revision, done),
    watch: (bucket, prefix, watcher) =>
      store.watch(bucket, prefix, {
        onEntry: (entry) => watcher.onEntry(read(entry)),
        onDelete: (...gone) => watcher.onDelete(...gone),
        onReady: () => watcher.onReady(),
        onFailure: (failure) => watcher.onFailure(failure),
      }),
  };
}
