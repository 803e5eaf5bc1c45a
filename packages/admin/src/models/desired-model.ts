/** Builds a model's spec for the cluster from its file, its `config.yaml` and the command's flags. */
import type { DesiredModel } from "@tutti/client/registries";
import {
  type ModelConfig,
  type ModelDescription,
  describeModel,
  draftModel,
  parseModelConfig,
  parsePbtxt,
  passedOverKeys,
} from "@tutti/onnx-tools";
import { TuttiError } from "@tutti/protocol";
import { parse } from "yaml";
import { CommandError } from "../failure.ts";
import { readLatencyPoints } from "./latency-points.ts";

/** `config.yaml`, plus the key that only the command line has: latencies given instead of measured. */
export interface FileConfig {
  readonly serving: ModelConfig;
  /** A table: `{ alpha: 1ms, beta: 5ms }` or `{ 1: 6ms, 8: 12ms }`. With buckets: a list of tables, smallest first. */
  readonly latencies: unknown;
  /** Triton's keys that change nothing here. */
  readonly passedOver?: readonly string[];
}

/**
 * @param origin - Triton's `config.pbtxt`, or else YAML. @throws {TuttiError | CommandError} naming the file and the
 *   key
 */
export function parseFileConfig(text: string, origin: string): FileConfig {
  const { latencies, ...serving } = origin.endsWith(".pbtxt")
    ? parsed(() => parsePbtxt(text), `${origin} can't be read`)
    : parseYamlMap(text, origin);
  return { serving: parseModelConfig(serving, origin), latencies, passedOver: passedOverKeys(serving) };
}

function parsed<Value>(read: () => Value, fault: string): Value {
  try {
    return read();
  } catch (error) {
    throw new CommandError(`${fault}: ${(error as Error).message}`);
  }
}

/** YAML (JSON is YAML too) that must be a map. */
export function parseYamlMap(text: string, origin: string): Readonly<Record<string, unknown>> {
  const value = parsed((): unknown => parse(text) ?? {}, `${origin} is no YAML`);
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new CommandError(`${origin}: a map of keys is expected, not ${JSON.stringify(value)}`);
}

/** @throws {TuttiError} INVALID_INPUT saying what is wrong with the file or the configuration, and how to correct it */
export function desiredModel(bytes: Uint8Array, config: FileConfig): DesiredModel {
  const { sha256: _, bytes: __, version: ___, ...model } = draftModel(config.serving, described(bytes, config));
  const { version } = config.serving;
  return {
    ...model,
    ...(version !== undefined && { version }),
    ...(config.latencies !== undefined && { profile: profileOf(config.latencies, model) }),
  };
}

/** Describes the file; an error names the model, since several may be loaded together. */
function described(bytes: Uint8Array, { serving: { name } }: FileConfig): ModelDescription {
  try {
    return describeModel(bytes);
  } catch (error) {
    if (name === undefined || !(error instanceof TuttiError)) throw error;
    throw new TuttiError(error.code, `model ${name}: ${error.message}`);
  }
}

type Profile = NonNullable<DesiredModel["profile"]>;
type Sizes = Pick<DesiredModel, "name" | "batchSizeMax" | "buckets">;

/** Reads one table for a model without buckets, or a list of tables in the order of the buckets. */
export function profileOf(latencies: unknown, { name, batchSizeMax, buckets }: Sizes): Profile {
  const tables = isOneTable(latencies) ? [latencies] : (latencies as unknown[]);
  if (tables.length !== buckets.length) {
    const text = `${tables.length} latency tables for ${buckets.length} buckets; give one for each, smallest first`;
    throw new CommandError(`${name}: ${text}`);
  }
  return tables.map((table, bucket) =>
    readLatencyPoints(table, batchSizeMax, `${name}, latencies of bucket ${bucket}`),
  );
}

/** A stored table is a list of points, so not every list is a list of tables. */
function isOneTable(value: unknown): boolean {
  if (!Array.isArray(value)) return true;
  const [first] = value as unknown[];
  return typeof first === "object" && first !== null && "batchSize" in first;
}
