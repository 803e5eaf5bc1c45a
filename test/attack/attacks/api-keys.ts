/** Attacks on a gateway that asks for API keys, by clients with none or with another application's. */
import type { ApiKeys, Attack, Scene } from "../attack.ts";
import { GrpcConnection, STATUS, inferMessage } from "../clients/grpc.ts";
import { ask } from "../clients/http.ts";

const BODY = `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]}]}`;
const GUESSED = `tutti_0123456789ab_${"A".repeat(43)}`;

interface Case {
  readonly what: string;
  readonly key?: string | undefined;
  readonly app?: string;
  readonly expected: number;
}

const casesOf = ({ a, b, admin }: ApiKeys): readonly Case[] => [
  { what: "no key", expected: 401 },
  { what: "a guessed key", key: GUESSED, expected: 401 },
  { what: "half of a key", key: a.slice(0, -1), expected: 401 },
  { what: "a key with another's id", key: b.slice(0, 18) + a.slice(18), expected: 401 },
  { what: "another application's name", key: a, app: "b", expected: 403 },
  { what: "its own name", key: a, app: "a", expected: 200 },
  { what: "the administrator's key in another's name", key: admin, app: "b", expected: 403 },
];

/** Requests that need an administrator's key. */
const ADMINISTRATIVE = [
  ["POST", "/v2/repository/models/add-one/unload"],
  ["POST", "/v2/repository/models/other/load"],
  ["POST", "/console/restart"],
] as const;
/** Requests that need any key. */
const READ = [
  ["GET", "/v2"],
  ["GET", "/v2/models/add-one"],
  ["GET", "/v2/models/add-one/stats"],
  ["GET", "/console/feed"],
  ["POST", "/v2/repository/index"],
] as const;

const keys: Attack = {
  name: "api-keys",
  what: "requests over HTTP and gRPC without a key, with a wrong one, or with another application's",
  system: "credentials",
  async run(scene) {
    if (scene.keys === undefined) return ["the gateway has no keys: whoever reaches it asks in any application's name"];
    return [...(await overHttp(scene, scene.keys)), ...(await overGrpc(scene, scene.keys))];
  },
};

const headersOf = (key: string | undefined, app?: string): Record<string, string> => ({
  ...(key !== undefined && { authorization: `Bearer ${key}` }),
  ...(app !== undefined && { "tutti-app": app }),
});

async function overHttp({ http }: Scene, all: ApiKeys): Promise<string[]> {
  const broken: string[] = [];
  const infer = `${http}/v2/models/add-one/infer`;
  for (const { what, key, app, expected } of casesOf(all)) {
    const { status } = await ask(infer, { body: BODY, headers: headersOf(key, app) });
    if (status !== expected) broken.push(`${what}: answered with ${status}, not ${expected}`);
  }
  // The body names the application as well.
  const named = BODY.replace("{", `{"parameters":{"app":"b"},`);
  const { status } = await ask(infer, { body: named, headers: headersOf(all.a) });
  if (status !== 403) broken.push(`another application's name in the body: answered with ${status}, not 403`);
  for (const [method, path] of ADMINISTRATIVE) {
    const question = { method, body: "{}", timeoutMs: 2_000 };
    for (const [key, expected] of [
      [undefined, 401],
      [GUESSED, 401],
      [all.a, 403],
    ] as const) {
      const reply = await ask(http + path, { ...question, headers: headersOf(key) });
      const who = key === undefined ? "no key" : key === all.a ? "an application's key" : "a guessed key";
      if (reply.status !== expected) broken.push(`${path} with ${who}: answered with ${reply.status}, not ${expected}`);
    }
  }
  for (const [method, path] of READ) {
    const reply = await ask(http + path, { method, timeoutMs: 1_500 });
    if (reply.status !== 401) broken.push(`${path} with no key: answered with ${reply.status}, not 401`);
  }
  return broken;
}

async function overGrpc({ grpc }: Scene, { a }: ApiKeys): Promise<string[]> {
  const connection = await GrpcConnection.open(grpc);
  try {
    const row = Float32Array.of(1, 2, 3, 4);
    const content = inferMessage({ model: "add-one", input: { name: "x", shape: [1, 4] }, row });
    const cases = [
      ["ModelInfer with no key", "ModelInfer", content, headersOf(undefined, "a"), STATUS.unauthenticated],
      ["ModelInfer with a guessed key", "ModelInfer", content, headersOf(GUESSED, "a"), STATUS.unauthenticated],
      ["ModelInfer in another's name", "ModelInfer", content, headersOf(a, "b"), STATUS.forbidden],
      ["ModelInfer in its own name", "ModelInfer", content, headersOf(a, "a"), STATUS.ok],
      ["ModelStreamInfer with no key", "ModelStreamInfer", content, headersOf(undefined, "a"), STATUS.unauthenticated],
      ["ServerMetadata with no key", "ServerMetadata", new Uint8Array(), {}, STATUS.unauthenticated],
      ["RepositoryIndex with no key", "RepositoryIndex", new Uint8Array(), {}, STATUS.unauthenticated],
      [
        "RepositoryModelUnload with an application's key",
        "RepositoryModelUnload",
        new Uint8Array(),
        headersOf(a),
        STATUS.forbidden,
      ],
    ] as const;
    const broken: string[] = [];
    for (const [what, method, message, metadata, expected] of cases) {
      const { status } = await connection.ask(method, message, metadata);
      if (status !== expected) broken.push(`${what}: answered with ${status}, not ${expected}`);
    }
    return broken;
  } finally {
    connection.close();
  }
}

export const keyAttacks: readonly Attack[] = [keys];
