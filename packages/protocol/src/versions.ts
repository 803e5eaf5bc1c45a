/**
 * Versions of a model. The first is served under the model's own name; one that is loaded beside it is a model of its
 * own (number, ModelThread, profile, SLO, place) whose name is `<name>/<version>`. The mark is legal in a subject's
 * token and in a key of the store, and no name of an application can have it.
 */
import { NAME_LENGTH_MAX, isName } from "./limits.ts";

const MARK = "/";

export interface VersionedName {
  readonly name: string;
  /** Undefined: the model's own name. */
  readonly version: string | undefined;
}

export const versionName = (name: string, version: string): string => `${name}${MARK}${version}`;

/** `mlp/2` taken apart; what follows the first mark is the version, whatever it is. */
export function splitModelName(text: string): VersionedName {
  const at = text.indexOf(MARK);
  return at < 0 ? { name: text, version: undefined } : { name: text.slice(0, at), version: text.slice(at + 1) };
}

/** `mlp` or `mlp/2`: what a model may be called. As a whole it is no longer than any name. */
export function isModelName(text: string): boolean {
  if (text.length > NAME_LENGTH_MAX) return false;
  const { name, version } = splitModelName(text);
  return isName(name) && (version === undefined || isName(version));
}

/** What the header `Tutti-Version` may say, and stand in it: no blanks, and nothing that isn't ASCII. */
export const isVersion = (text: string): boolean => text.length <= NAME_LENGTH_MAX && VERSION.test(text);
const VERSION = /^[\x21-\x2e\x30-\x7e]+$/;

/** What publishers call it: `mlp` for `mlp/2`. */
export const publicNameOf = (modelName: string): string => splitModelName(modelName).name;
