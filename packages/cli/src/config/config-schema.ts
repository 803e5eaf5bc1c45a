/** The JSON Schema of tutti.yaml, made from the tables of options. `npm run docs` writes it to CONFIG_SCHEMA. */
import { FLAGS, type OptionSpec, UP_OPTIONS, describe, kindOf } from "@tutti/host";

export const CONFIG_SCHEMA = new URL("./tutti.schema.json", import.meta.url);

interface PropertySchema {
  readonly type?: string | readonly string[];
  readonly enum?: readonly string[];
  readonly description: string;
}

export function configSchema(): object {
  const properties = new Map<string, PropertySchema>([
    ["$schema", { type: "string", description: "where an editor finds this schema" }],
  ]);
  for (const spec of [...UP_OPTIONS, ...FLAGS]) {
    const known = properties.get(spec.name);
    properties.set(spec.name, known === undefined ? propertyOf(spec) : eitherOf(known, propertyOf(spec)));
  }
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "Options of tutti up and tutti run",
    description: "Every option is a flag without its dashes; docs/reference/configuration.md lists them",
    type: "object",
    additionalProperties: false,
    properties: Object.fromEntries(properties),
  };
}

/** `tutti up` and a role may mean different things by one name, such as a number of accelerators and their ids. */
function eitherOf(up: PropertySchema, role: PropertySchema): PropertySchema {
  if (JSON.stringify({ ...up, description: "" }) === JSON.stringify({ ...role, description: "" })) return up;
  const types = new Set([up, role].flatMap(({ type = "string" }) => type));
  return { type: [...types], description: `of tutti up ${up.description}; of a role ${role.description}` };
}

/** Numbers may be written as such, and stay texts where they have a unit. */
const SCALAR = ["string", "number"];

function propertyOf(spec: OptionSpec): PropertySchema {
  const kind = kindOf(spec);
  const text = describe({ ...spec, ...(spec.default === "true" && { value: "" }) });
  switch (kind.kind) {
    case "choice":
      return { enum: kind.choices, description: `${kind.choices.join(", ")}: ${text}` };
    case "switch":
      return { type: "boolean", description: `true or false: ${text}` };
    case "count":
      return { type: "integer", ...{ minimum: 0 }, description: `a whole number: ${text}` };
    case "port":
      return { type: "integer", ...{ minimum: 0, maximum: 65_535 }, description: `a port from 0 to 65535: ${text}` };
    case "number":
      return { type: "number", description: `a number: ${text}` };
    case "path":
    case "path-or-url": {
      const type = spec.isValueOptional === true ? ["string", "boolean"] : "string";
      return { type, ...{ minLength: 1 }, description: `a path, relative to this file: ${text}` };
    }
    case "list":
      return { type: [...SCALAR, "array"], ...{ items: { type: SCALAR } }, description: `a list: ${text}` };
    case "text":
      return { type: SCALAR, description: `${spec.value}: ${text}` };
  }
}
