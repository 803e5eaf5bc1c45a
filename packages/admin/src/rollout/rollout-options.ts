import { splitModelName } from "@tutti/protocol";
import { type Micros, parseDuration } from "@tutti/units";
import type { ClusterOptions } from "../cluster/find-cluster.ts";
import { usageError } from "../failure.ts";

export interface RolloutCommandOptions extends ClusterOptions {
  readonly to?: string;
  readonly percent?: string;
  readonly over?: string;
  readonly maxBad: string;
  /** Absent: answers that differ from the shadow's are told only. */
  readonly maxMismatch?: string;
  readonly detach?: boolean;
  readonly default?: string;
  readonly shadow?: string;
  readonly tolerance?: string;
  readonly endShadow?: boolean;
  readonly back?: boolean;
  readonly clear?: boolean;
  /** Seconds. */
  readonly wait: string;
  readonly json?: boolean;
}

/** The one operation that the flags ask for. */
export type RolloutOrder =
  | { readonly kind: "show" | "end-shadow" | "back" | "clear" }
  | {
      readonly kind: "share";
      readonly version: string;
      readonly percent: number;
      readonly ramp?: { readonly over: Micros; readonly badMax: number; readonly mismatchMax: number };
    }
  | { readonly kind: "default"; readonly version: string }
  | { readonly kind: "shadow"; readonly version: string; readonly percent: number; readonly tolerance?: number };

/** @throws {CommandError} a usage error naming the flag */
export function orderOf(model: string | undefined, options: RolloutCommandOptions): RolloutOrder {
  const { to, default: otherwise, shadow, endShadow = false, back = false, clear = false } = options;
  const given = [
    to !== undefined && "--to",
    otherwise !== undefined && "--default",
    shadow !== undefined && "--shadow",
    endShadow && "--end-shadow",
    back && "--back",
    clear && "--clear",
  ].filter((flag) => flag !== false);
  if (given.length > 1) throw usageError(`${given.join(" and ")}: one at a time`);
  if (model !== undefined && splitModelName(model).version !== undefined)
    throw usageError(`${model}: name the model, and the version with --to`);
  if (model === undefined && given.length > 0) throw usageError(`${given[0]}: of which model?`);
  if (options.over !== undefined && to === undefined) throw usageError("--over needs --to");
  if (options.maxMismatch !== undefined && options.over === undefined) throw usageError("--max-mismatch needs --over");
  if (options.tolerance !== undefined && shadow === undefined) throw usageError("--tolerance needs --shadow");
  if (options.percent !== undefined && to === undefined && shadow === undefined)
    throw usageError("--percent needs --to or --shadow");
  if (to !== undefined) return shareOf(to, options);
  if (otherwise !== undefined) return { kind: "default", version: otherwise };
  if (shadow !== undefined) {
    const percent = percentOf("--percent", options.percent ?? "100");
    const tolerance = options.tolerance === undefined ? undefined : Number(options.tolerance);
    if (tolerance !== undefined && !(options.tolerance!.trim() !== "" && tolerance >= 0 && tolerance < Infinity))
      throw usageError(`--tolerance ${options.tolerance}: a number from 0 up`);
    return { kind: "shadow", version: shadow, percent, ...(tolerance !== undefined && { tolerance }) };
  }
  return { kind: endShadow ? "end-shadow" : back ? "back" : clear ? "clear" : "show" };
}

function shareOf(version: string, options: RolloutCommandOptions): RolloutOrder {
  if (options.percent === undefined) throw usageError(`--to ${version} needs --percent`);
  const percent = percentOf("--percent", options.percent);
  if (options.over === undefined) return { kind: "share", version, percent };
  const over = parseDuration(options.over);
  if (over === undefined || over === 0) throw usageError(`--over ${options.over}: a duration such as 60s or 10m`);
  const badMax = percentOf("--max-bad", options.maxBad) / 100;
  const mismatchMax = percentOf("--max-mismatch", options.maxMismatch ?? "100") / 100;
  return { kind: "share", version, percent, ramp: { over, badMax, mismatchMax } };
}

function percentOf(flag: string, text: string): number {
  const percent = Number(text.replace(/\s*%$/, ""));
  if (text.trim() !== "" && percent >= 0 && percent <= 100) return percent;
  throw usageError(`${flag} ${text}: a percentage from 0 to 100`);
}
