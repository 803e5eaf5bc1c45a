/** Checks scenario files and similar ones against JSON Schemas, with errors that say what to write instead. */
import { readFileSync } from "node:fs";
import { nearest } from "@tutti/admin";
import { Ajv2020, type ErrorObject, type ValidateFunction } from "ajv/dist/2020.js";
import type { Problem, YamlPath } from "./located-yaml.ts";

export const SCENARIO_SCHEMA = new URL("./scenario.schema.json", import.meta.url);

/** The problems of a scenario; empty: none. */
export const checkAgainstSchema = schemaCheck(SCENARIO_SCHEMA);

export type SchemaCheck = (document: unknown) => readonly Problem[];

/** @param uses - schemas that this one refers to, by paths relative to it */
export function schemaCheck(schema: URL, uses: readonly URL[] = []): SchemaCheck {
  let validator: ValidateFunction | undefined;
  const read = (url: URL): object => JSON.parse(readFileSync(url, "utf8")) as object;
  return (document) => {
    validator ??= new Ajv2020({
      allErrors: true,
      verbose: true,
      strict: true,
      strictTypes: false,
      allowUnionTypes: true,
      strictRequired: false,
      schemas: Object.fromEntries(uses.map((url) => [url.href, read(url)])),
    }).compile({ $id: schema.href, ...read(schema) });
    if (validator(document)) return [];
    const errors = (validator.errors ?? []).filter(({ keyword }) => keyword !== "if" && keyword !== "propertyNames");
    return errors.map((error) => asProblem(error, document));
  };
}

function asProblem(error: ErrorObject, document: unknown): Problem {
  const path = pathOf(error.instancePath, document);
  const schema = (error.parentSchema ?? {}) as Described;
  const { params } = error as { params: Readonly<Record<string, unknown>> };
  switch (error.keyword) {
    case "additionalProperties": {
      const key = String(params["additionalProperty"]);
      return { path: [...path, key], at: "key", text: unknownKey(key, Object.keys(schema.properties ?? {})) };
    }
    case "required": {
      const key = String(params["missingProperty"]);
      const description = schema.properties?.[key]?.description;
      return { path, text: `"${key}" is missing${description === undefined ? "" : `; give ${description}`}` };
    }
    case "pattern":
      if (error.propertyName !== undefined) {
        const text = `"${error.propertyName}" is no batch size; write { 1: 6, 8: 12 }`;
        return { path: [...path, error.propertyName], at: "key", text };
      }
      return { path, text: `${show(error.data)} isn't understood${hint(schema)}` };
    case "minItems":
      return {
        path,
        text: `${show(error.data)} has too few entries: at least ${String(params["limit"])}${hint(schema)}`,
      };
    case "enum":
      return { path, text: `${show(error.data)} is not known${hint(schema)}` };
    default:
      return { path, text: `${show(error.data)} ${error.message ?? "is wrong"}${hint(schema)}` };
  }
}

interface Described {
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Described>>;
}

const hint = ({ description }: Described): string => (description === undefined ? "" : `; give ${description}`);

/** Number of keys up to which all are named beside a guess; a longer list would hide it. */
const KEYS_SHOWN_MAX = 40;

function unknownKey(key: string, known: readonly string[]): string {
  const close = nearest(key, known);
  const guess = close === undefined ? "remove it." : `did you mean "${close}"?`;
  if (close !== undefined && known.length > KEYS_SHOWN_MAX) return `unknown key; ${guess}`;
  return `unknown key; ${guess} Known here: ${known.filter((name) => name !== "$schema").join(", ")}`;
}

/** The tokens of a JSON pointer; list indices as numbers. */
function pathOf(pointer: string, document: unknown): YamlPath {
  let value = document;
  return pointer
    .split("/")
    .slice(1)
    .map((token) => {
      const key = token.replaceAll("~1", "/").replaceAll("~0", "~");
      const step = Array.isArray(value) ? Number(key) : key;
      value = (value as Readonly<Record<string, unknown>> | undefined)?.[key];
      return step;
    });
}

const SHOWN_CHARACTERS_MAX = 60;

function show(value: unknown): string {
  const text = typeof value === "number" ? String(value) : JSON.stringify(value); // JSON has no infinity
  return text.length <= SHOWN_CHARACTERS_MAX ? text : `${text.slice(0, SHOWN_CHARACTERS_MAX)}…`;
}
