/** Explanations of refusals for an on-call engineer: the codes of docs/messages.md in other words. */
import type { FeedRefusal } from "../src/feed.ts";

const WORDS: Readonly<Record<string, { readonly means: string; readonly look: string }>> = {
  TUTTI_OVERLOADED: {
    means: "More came than can be served in time, so this one was given up to keep the others in time.",
    look: "The plan says how many accelerators the load needs; a replay shows what more of them would do.",
  },
  TUTTI_DEADLINE_INFEASIBLE: {
    means: "Its deadline couldn't have been met: too little time for one run, or too much ahead of it.",
    look: "Whoever asks must allow more time; the text says how much would do.",
  },
  TUTTI_DEADLINE_EXCEEDED: {
    means: "Its deadline passed without a result: a batch was lost, or ran longer than planned.",
    look: "An executor may have died or stalled: see Actors.",
  },
  TUTTI_NOT_READY: {
    means: "The model is loading, being measured, or waits for an executor; or it was refused or quarantined.",
    look: "The model's state and its reason stand in the table of models.",
  },
  TUTTI_NOT_FOUND: { means: "No such model, or not in this version.", look: "Models lists what is served." },
  TUTTI_INVALID_INPUT: {
    means: "The request is not what the model takes.",
    look: "Whoever asks has to correct it; the text says what was expected.",
  },
  TUTTI_UNAVAILABLE: { means: "Nobody was there who could have answered.", look: "See which actors are missing." },
  TUTTI_CANCELLED: { means: "Its publisher took it back.", look: "Nothing to do." },
  TUTTI_TOO_LARGE: { means: "The request or its answer is larger than a limit.", look: "The text names the limit." },
  TUTTI_UNAUTHENTICATED: {
    means: "It came to a gateway without a key that is good.",
    look: "`tutti auth key` makes keys and lists them.",
  },
  TUTTI_QUOTA_EXCEEDED: {
    means: "Its application took more than its quota at a gateway.",
    look: "`tutti auth quota` says what it may take.",
  },
  TUTTI_FORBIDDEN: { means: "These credentials don't allow it.", look: "The operator hands out credentials." },
  TUTTI_INTERNAL: {
    means: "A fault of the system, or of the model.",
    look: "The log of the executor or the ingress has it.",
  },
};

export const explanation = (code: string): { readonly means: string; readonly look: string } =>
  WORDS[code] ?? { means: "The request was refused.", look: "The text says why." };

export interface RefusalGroup extends FeedRefusal {
  readonly count: number;
  /** Time of the oldest refusal of the group; `at` is that of the newest. */
  readonly since: number;
}

/** The refusals that have a text in what is shown of them, or in an id. */
export function matchingRefusals(refusals: readonly FeedRefusal[], text: string): readonly FeedRefusal[] {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return refusals;
  return refusals.filter(({ model, app, id, trace, code, text: reason }) =>
    [model, app, id, trace, code, shortCode(code), reason].some((part) => part.toLowerCase().includes(wanted)),
  );
}

/**
 * Groups adjacent refusals of one model, application and cause: an overload refuses hundreds alike. @param refusals -
 * oldest first.
 * @returns newest first
 */
export function groupRefusals(refusals: readonly FeedRefusal[]): RefusalGroup[] {
  const groups: RefusalGroup[] = [];
  for (const refusal of refusals.toReversed()) {
    const last = groups.at(-1);
    if (last?.model === refusal.model && last.app === refusal.app && last.code === refusal.code)
      groups[groups.length - 1] = { ...last, count: last.count + 1, since: refusal.at };
    else groups.push({ ...refusal, count: 1, since: refusal.at });
  }
  return groups;
}

export const shortCode = (code: string): string =>
  code
    .replace(/^TUTTI_/, "")
    .toLowerCase()
    .replaceAll("_", " ");
