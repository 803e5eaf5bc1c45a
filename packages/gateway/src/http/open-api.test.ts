/** The OpenAPI document against the implementation: it lists all paths, and each path answers as it describes. */
import { ERROR_STATUS } from "@tutti/protocol";
import { afterAll, beforeAll, expect, test } from "vitest";
import { GatewayScene, TOKEN } from "../testing/gateway-scene.ts";
import { openApi } from "./open-api.ts";
import { ROUTES } from "./routes.ts";

type Schema = Readonly<Record<string, unknown>>;
interface ResponseObject {
  readonly content: Readonly<Record<string, { readonly schema: Schema }>>;
}
interface OperationObject {
  readonly operationId: string;
  readonly parameters: readonly { readonly name: string; readonly in: string }[];
  readonly security?: unknown;
  readonly responses: Readonly<Record<string, ResponseObject>>;
}
interface Document {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, OperationObject>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

let scene: GatewayScene;
let document: Document;
beforeAll(async () => {
  scene = await GatewayScene.open();
  document = (await (await fetch(`${scene.addresses.http}/openapi.json`)).json()) as Document;
});
afterAll(() => scene.close());

/** Validates a value by the parts of JSON Schema that the document uses. @returns the problems, each with its place */
function problems(schema: Schema, value: unknown, where = "body"): string[] {
  const { $ref: reference, type, properties, required, items, enum: choices, additionalProperties } = schema;
  if (typeof reference === "string")
    return problems(document.components.schemas[reference.split("/").at(-1) ?? ""] ?? {}, value, where);
  const types = ([] as unknown[]).concat(type ?? []);
  const kind = Array.isArray(value) ? "array" : Number.isInteger(value) ? "integer" : typeof value;
  if (types.length > 0 && !types.includes(kind) && !(kind === "integer" && types.includes("number")))
    return [`${where} is ${kind}, not ${types.join(" or ")}`];
  if (Array.isArray(choices) && !choices.includes(value)) return [`${where}: ${String(value)} is no choice`];
  if (kind === "array")
    return (value as unknown[]).flatMap((one, i) => problems((items ?? {}) as Schema, one, `${where}[${i}]`));
  if (kind !== "object") return [];
  const own = value as Schema;
  const known = (properties ?? {}) as Record<string, Schema>;
  return [
    ...((required ?? []) as string[]).filter((name) => !(name in own)).map((name) => `${where}.${name} is missing`),
    ...Object.entries(own).flatMap(([name, one]) => {
      const itsSchema = known[name] ?? additionalProperties ?? {};
      return itsSchema === false
        ? [`${where}.${name} is unknown`]
        : problems(itsSchema as Schema, one, `${where}.${name}`);
    }),
  ];
}

const INPUT = { name: "x", datatype: "FP32", shape: [1, 4], data: [1, 2, 3, 4] };
const METRIC = "tutti_advice_accelerators";

/** @returns the status of the answer, which the document has, with a body that fits its schema */
async function check(
  path: string,
  method: string,
  init: RequestInit,
  fill: Readonly<Record<string, string>>,
): Promise<number> {
  const url = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => fill[name] ?? "?");
  const response = await fetch(scene.addresses.http + url, { ...init, method: method.toUpperCase() });
  const declared = document.paths[path]![method]!.responses[String(response.status)];
  expect(declared, `${method} ${url} answers ${response.status}`).toBeDefined();
  expect(response.headers.get("content-type"), url).toBe("application/json");
  const body: unknown = await response.json();
  const { schema } = declared!.content["application/json"]!;
  expect(problems(schema, body), `${url}: ${JSON.stringify(body)}`).toEqual([]);
  return response.status;
}

const all = (): (readonly [string, string, OperationObject])[] =>
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => [path, method, operation] as const),
  );

test("every path answers as documented, where it is right and where it is not", async () => {
  const statuses = new Set<number>();
  for (const fill of [
    { model: "twice", version: "1", region: "r", namespace: "prod", metric: METRIC },
    { model: "nobody", version: "7", region: "r", namespace: "prod", metric: "other" },
  ])
    for (const headers of [{}, { authorization: `Bearer ${TOKEN}` }] as Record<string, string>[])
      for (const [path, method, { operationId }] of all()) {
        const isAllowed = headers["authorization"] !== undefined;
        if (operationId === "repositoryUnload" && fill.model === "twice" && isAllowed) continue; // the others need it
        const isPredict = operationId.startsWith("predict");
        const body = operationId.startsWith("infer")
          ? { inputs: [INPUT] }
          : isPredict
            ? { instances: [INPUT.data] }
            : {};
        const init = { headers, ...(method === "post" && { body: JSON.stringify(body) }) };
        statuses.add(await check(path, method, init, fill));
      }
  expect([...statuses].sort()).toEqual([200, 400, 401, 403, 404, 503]);
  const invalid = { body: JSON.stringify({ inputs: 3 }) };
  expect(await check("/v2/models/{model}/infer", "post", invalid, { model: "twice" })).toBe(400);
  const authorised = { headers: { authorization: `Bearer ${TOKEN}` } };
  expect(await check("/v2/repository/models/{model}/unload", "post", authorised, { model: "twice" })).toBe(200);
});

test("the document has exactly the router's paths, each with its parameters and an id of its own", () => {
  expect(document.openapi).toBe("3.1.0");
  expect(all().map(([path, method]) => `${method.toUpperCase()} ${path}`)).toEqual(
    ROUTES.map(({ method, path }) => `${method} ${path}`),
  );
  expect(new Set(all().map(([, , { operationId }]) => operationId)).size).toBe(ROUTES.length);
  for (const [path, , { parameters, operationId, security }] of all()) {
    const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    expect(parameters.filter((one) => one.in === "path").map(({ name }) => name)).toEqual(named);
    expect(security !== undefined).toBe(/^repository(Load|Unload)$/.test(operationId));
  }
  const codes = (document.components.schemas["Error"] as { properties: { code: { enum: string[] } } }).properties.code;
  expect(codes.enum).toEqual(Object.keys(ERROR_STATUS));
  expect(JSON.parse(JSON.stringify(openApi()))).toEqual(document);
});

test("every reference within the document leads somewhere", () => {
  for (const [, name = ""] of JSON.stringify(document).matchAll(/#\/components\/schemas\/(\w+)/g))
    expect(Object.keys(document.components.schemas)).toContain(name);
});
