/** The shape of a `config.yaml`: its keys, and of which kind their values are. */
import { TuttiError } from "@tutti/protocol";
import { isAxisConfig, isCutConfig } from "./axis-config.ts";
import type { ModelConfig, ValueConfig } from "./model-config.ts";
import { withoutTriton } from "./triton-config.ts";

const KEYS: ReadonlySet<string> = new Set<keyof ModelConfig>([
  "name",
  "slo",
  "max_batch_size",
  "patience",
  "shares",
  "priority_floor",
  "run_deadline",
  "independent_rows",
  "scale_to_zero",
  "memory",
  "version",
  "input",
  "output",
  "constants",
  "axes",
  "cut",
  "preprocess",
  "presentation",
]);

/**
 * Checks a config that was read from a file, Triton's keys in it too. @throws {TuttiError} INVALID_INPUT naming the key
 * that is wrong
 */
export function parseModelConfig(given: unknown, origin: string): ModelConfig {
  const fail = (text: string): never => {
    throw new TuttiError("TUTTI_INVALID_INPUT", `${origin}: ${text}`, { retryable: false });
  };
  if (!isRecord(given)) return fail("a mapping of keys is expected");
  const value = withoutTriton(given, fail);
  for (const key of Object.keys(value)) {
    if (!KEYS.has(key)) fail(`unknown key '${key}'; known are ${[...KEYS].join(", ")}`);
  }
  for (const key of ["name", "version"]) {
    if (key in value && typeof value[key] !== "string") fail(`${key}: a text is expected (put quotes around a number)`);
  }
  if ("slo" in value && typeof value["slo"] !== "string" && typeof value["slo"] !== "number")
    fail("slo: 25ms, for example");
  if ("run_deadline" in value && typeof value["run_deadline"] !== "string" && typeof value["run_deadline"] !== "number")
    fail("run_deadline: 2s, for example");
  if ("independent_rows" in value && typeof value["independent_rows"] !== "boolean")
    fail("independent_rows: true or false is expected");
  if ("scale_to_zero" in value && !isScaleToZero(value["scale_to_zero"]))
    fail("scale_to_zero: {idle: 10m, cold_start: 30s}, for example");
  if ("memory" in value && typeof value["memory"] !== "string" && typeof value["memory"] !== "number")
    fail("memory: 512MB, for example");
  for (const key of ["max_batch_size", "patience", "priority_floor"]) {
    if (key in value && typeof value[key] !== "number") fail(`${key}: a number is expected`);
  }
  for (const key of ["input", "output"]) {
    if (key in value && !(Array.isArray(value[key]) && value[key].every(isValueConfig))) {
      fail(`${key}: a list of {name, dims} is expected, with dims such as [batch, 3, 48, W]`);
    }
  }
  for (const key of ["constants", "axes", "cut", "preprocess", "presentation"]) {
    if (key in value && !isRecord(value[key])) fail(`${key}: a mapping is expected`);
  }
  for (const [axis, config] of Object.entries(value["axes"] ?? {})) {
    if (!isAxisConfig(config))
      fail(`axes.${axis}: {mode: bucket, sizes: [80, 160], pad_value: 0} or {mode: pad, max: 640} is expected`);
  }
  for (const [axis, cut] of Object.entries(value["cut"] ?? {})) {
    if (!isCutConfig(cut)) fail(`cut.${axis}: {axis: W, divide: 8} or none is expected`);
  }
  for (const [constant, given] of Object.entries(value["constants"] ?? {})) {
    if (!isNumbers(given) && typeof given !== "number")
      fail(`constants.${constant}: a number or a list of numbers is expected`);
  }
  return value;
}

/** No key but these two, so that a misspelt one is not left out in silence. */
const isScaleToZero = (value: unknown): boolean =>
  isRecord(value) &&
  Object.keys(value).toSorted().join() === "cold_start,idle" &&
  Object.values(value).every((one) => typeof one === "string" || typeof one === "number");

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isNumbers = (value: unknown): value is number[] =>
  Array.isArray(value) && value.every((one) => typeof one === "number");

function isValueConfig(value: unknown): value is ValueConfig {
  if (!isRecord(value) || typeof value["name"] !== "string" || !Array.isArray(value["dims"])) return false;
  return value["dims"].every(
    (dim) => (typeof dim === "string" && dim !== "") || (Number.isSafeInteger(dim) && dim > 0),
  );
}
