import { ACTOR_KEY_MAX, type ActorKey } from "@tutti/units";
import { fromJson } from "@tutti/wire";

/** The ranker that a lease of a sub-cluster names; undefined: it can't be read. */
export function rankerIn(value: Uint8Array): ActorKey | undefined {
  try {
    const { ranker } = Object(fromJson(value)) as { ranker?: unknown };
    const isKey = Number.isSafeInteger(ranker) && Number(ranker) > 0 && Number(ranker) < ACTOR_KEY_MAX;
    return isKey ? (ranker as ActorKey) : undefined;
  } catch {
    return undefined;
  }
}
