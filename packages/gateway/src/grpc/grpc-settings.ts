/** Triton's trace and log settings over gRPC. */
import { type Settings, unchanged } from "../oip/triton-settings.ts";

/** A list of texts, none of which leave the setting to the server. */
interface TraceValue {
  readonly value: readonly string[];
}
export interface WireTraceSettings {
  readonly settings: Readonly<Record<string, TraceValue>>;
  readonly model_name: string;
}
interface LogValue {
  readonly parameter_choice?: "bool_param" | "uint32_param" | "string_param";
  readonly bool_param?: boolean;
  readonly uint32_param?: number;
  readonly string_param?: string;
}
export interface WireLogSettings {
  readonly settings: Readonly<Record<string, LogValue>>;
}

/** @throws {TuttiError} INVALID_INPUT: it would be a change */
export function traceAnswer(current: Settings, { settings }: WireTraceSettings): object {
  const now = unchanged(
    current,
    mapped(settings, ({ value }) => value),
  );
  return { settings: mapped(now, (value) => ({ value: [value].flat().map(String) })) };
}

/** @throws {TuttiError} INVALID_INPUT: it would be a change */
export function logAnswer(current: Settings, { settings }: WireLogSettings): object {
  const now = unchanged(
    current,
    mapped(settings, ({ parameter_choice: choice, ...value }) => (choice === undefined ? null : value[choice])),
  );
  return {
    settings: mapped(now, (value) =>
      typeof value === "boolean"
        ? { bool_param: value }
        : typeof value === "number"
          ? { uint32_param: value }
          : { string_param: String(value) },
    ),
  };
}

const mapped = <From, To>(
  record: Readonly<Record<string, From>>,
  convert: (value: From) => To,
): Readonly<Record<string, To>> =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, convert(value)]));
