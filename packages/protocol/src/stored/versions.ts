/**
 * Versions of a model. The first is served under the model's own name. One that is loaded beside it is a separate model
 * (number, ModelThread, profile, SLO, place) named `<name>/<version>`. The mark is legal in a subject's token and in a
 * key of the store, and cannot occur in an application's name.
 */
import { NAME_LENGTH_MAX, isName } from "../limits.ts";

const MARK = "/";

export interface VersionedName {
  readonly name: string;
  /** The version; undefined: the model's own name. */
  readonly version: string | undefined;
}

export const versionName = (name: string, version: string): string => `${name}${MARK}${version}`;

/** Splits `mlp/2` into name and version. Everything after the first mark is the version. */
export function splitModelName(text: string): VersionedName {
  const at = text.indexOf(MARK);
  return at < 0 ? { name: text, version: undefined } : { name: text.slice(0, at), version: text.slice(at + 1) };
}

/** True for a valid model name, `mlp` or `mlp/2`. As a whole it is no longer than any name. */
export function isModelName(text: string): boolean {
  if (text.length > NAME_LENGTH_MAX) return false;
  const { name, version } = splitModelName(text);
  return isName(name) && (version === undefined || isName(version));
}

/** True for a valid value of the header `Tutti-Version`: no blanks, and only ASCII. */
export const isVersion = (text: string): boolean => text.length <= NAME_LENGTH_MAX && VERSION.test(text);
const VERSION = /^[\x21-\x2e\x30-\x7e]+$/;

/** Name that publishers use: `mlp` for `mlp/2`. */
export const publicNameOf = (modelName: string): string => splitModelName(modelName).name;
