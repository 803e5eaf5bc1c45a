/** Well-formed false messages: recorded messages of actors with other numbers, under the actors' own names. */
import * as protocol from "@tutti/protocol";
import type { MessageType } from "@tutti/protocol";
import type { ActorKey, Instant, Prng } from "@tutti/units";
import { FrameReader, FrameWriter } from "@tutti/wire";

/** One message of a frame. */
export interface Said {
  readonly subject: string;
  readonly sender: ActorKey;
  readonly type: MessageType<object>;
  readonly value: object;
  readonly at: Instant;
}

const TYPES = Object.values<unknown>(protocol).filter(
  (value): value is MessageType<object> =>
    typeof value === "object" && value !== null && "tag" in value && "repair" in value,
);

/** All messages of a frame. */
export function saidIn(subject: string, payload: Uint8Array, at: Instant): Said[] {
  const found: Said[] = [];
  const reader = new FrameReader();
  for (const type of TYPES) reader.on(type, (value, sender) => void found.push({ subject, sender, type, value, at }));
  reader.read(payload);
  return found;
}

/** @returns undefined where no writer can encode it */
export function frameOf({ sender, type, value }: Said): Uint8Array | undefined {
  const writer = new FrameWriter(sender);
  try {
    writer.add(type, value);
  } catch {
    return undefined;
  }
  return writer.take().slice();
}

/** The same message as if sent now: its times are shifted. */
export function asOf(now: Instant, said: Said): Said {
  const value = structuredClone(said.value) as Record<string, unknown>;
  const passed = now - said.at;
  for (const [key, moment] of Object.entries(value))
    if (typeof moment === "number" && MOMENT.test(key)) value[key] = moment + passed;
  return { ...said, value };
}
const MOMENT = /At$|^(deadline|latest|validUntil|frontrun)$/;

const STEPS = [1, -1, 1_000, -1_000, 1_000_000, -1_000_000, 2 ** 20, 2 ** 33, 2 ** 45];
const VALUES = [0, 1, 2 ** 31, 2 ** 52, Number.MAX_SAFE_INTEGER, Infinity, -Infinity];

/** Replaces one to three of its numbers: by a neighbour, an extreme, or another message's value of the field. */
export function withOtherNumbers(said: Said, others: readonly Said[], prng: Prng): Said {
  const value = structuredClone(said.value);
  for (let changes = 1 + prng.nextInt(3); changes > 0; changes--) {
    const places = [...numbersIn(value)];
    const place = places[prng.nextInt(Math.max(1, places.length))];
    if (place === undefined) break;
    const now = place.holder[place.key] as number;
    const alike = others.filter(({ type }) => type === said.type);
    const other = alike[prng.nextInt(Math.max(1, alike.length))];
    const lent = (other?.value as Record<string, unknown> | undefined)?.[place.key];
    const choice = prng.nextInt(3);
    if (choice === 0) place.holder[place.key] = now + STEPS[prng.nextInt(STEPS.length)]!;
    else if (choice === 1) place.holder[place.key] = VALUES[prng.nextInt(VALUES.length)]!;
    else if (typeof lent === "number") place.holder[place.key] = lent;
  }
  return { ...said, value };
}

function* numbersIn(value: unknown): Generator<{ readonly holder: Record<string, unknown>; readonly key: string }> {
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return;
  const holder = value as Record<string, unknown>;
  for (const [key, inner] of Object.entries(holder)) {
    if (typeof inner === "number") yield { holder, key };
    else yield* numbersIn(inner);
  }
}
