import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { type Server, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { RecordingTelemetry } from "@tutti/ports/telemetry";
import { SignJWT, UnsecuredJWT } from "jose";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Access } from "./access.ts";

const pair = (kid: string) => {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return { kid, privateKey, jwk: { ...publicKey.export({ format: "jwk" }), kid, alg: "ES256", use: "sig" } };
};
const [first, second] = [pair("one"), pair("two")];
type Pair = typeof first;

let folder: string;
let access: Access;
let server: Server | undefined;
const telemetry = new RecordingTelemetry();

function writeJwks(...keys: readonly Pair[]): string {
  const path = join(folder, "jwks.json");
  writeFileSync(`${path}.new`, JSON.stringify({ keys: keys.map(({ jwk }) => jwk) }));
  renameSync(`${path}.new`, path);
  return path;
}
function open(jwks: string, issuer?: string): void {
  access = new Access({ jwt: { jwks, issuer }, lookEveryMs: 20 }, undefined, telemetry.log);
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tutti-jwt-"));
  telemetry.logs.length = 0;
  open(writeJwks(first));
});
afterEach(() => {
  access.stop();
  server?.close();
  rmSync(folder, { recursive: true });
});

interface Claims {
  readonly by?: Pair;
  readonly audience?: string;
  readonly expires?: string | number;
  readonly issuer?: string;
  readonly rest?: Record<string, unknown>;
}
const token = ({ by = first, audience = "tutti", expires = "5m", issuer, rest = { app: "shop" } }: Claims = {}) => {
  const signing = new SignJWT(rest).setProtectedHeader({ alg: "ES256", kid: by.kid }).setAudience(audience);
  if (issuer !== undefined) signing.setIssuer(issuer);
  if (expires !== "never") signing.setExpirationTime(expires);
  return signing.sign(by.privateKey);
};
const identify = async (text: string) => access.identify(`Bearer ${text}`);
const refusal = (text: string): Promise<string> =>
  identify(text).then(
    ({ who }) => `it came in as ${who}`,
    (error: { code: string }) => error.code,
  );

test("a token that was signed for us binds its application, and its scope makes an administrator", async () => {
  expect(await identify(await token())).toMatchObject({ app: "shop", isAdmin: false, who: "token of shop" });
  const rest = { app: "operations", scope: "read tutti:admin", sub: "kim" };
  expect(await identify(await token({ rest }))).toMatchObject({ app: "operations", isAdmin: true });
  expect(await identify(await token({ rest: { ...rest, scope: "tutti:administer" } }))).toMatchObject({
    isAdmin: false,
  });
});

test("tokens of others, for others, without an end, past it, or without a name of an application are refused", async () => {
  const hour = Math.floor(Date.now() / 1_000) - 3_600;
  for (const claims of [
    { by: second },
    { by: { ...second, kid: first.kid } },
    { audience: "billing" },
    { expires: "never" },
    { expires: hour },
    { rest: {} },
    { rest: { app: "a.b" } },
    { rest: { app: "*" } },
    { rest: { app: ["shop"] } },
  ] as Claims[])
    expect(await refusal(await token(claims)), JSON.stringify(claims.rest ?? claims)).toBe("TUTTI_UNAUTHENTICATED");
  const good = await token();
  const [head, , signature] = good.split(".");
  const forged = Buffer.from(JSON.stringify({ app: "camera", aud: "tutti", exp: 9e9 })).toString("base64url");
  for (const text of [`${head}.${forged}.${signature}`, `${head}.${forged}.`, "a.b.c", "", good.slice(0, -2)])
    expect(await refusal(text), text).toBe("TUTTI_UNAUTHENTICATED");
});

test("neither an unsigned token nor one that is signed with the public key as a secret comes in", async () => {
  const claims = { app: "shop", aud: "tutti", exp: 9e9 };
  const unsigned = new UnsecuredJWT(claims).encode();
  expect(await refusal(`${unsigned}`)).toBe("TUTTI_UNAUTHENTICATED");
  const secret = new TextEncoder().encode(JSON.stringify(first.jwk));
  const confused = await new SignJWT(claims).setProtectedHeader({ alg: "HS256", kid: first.kid }).sign(secret);
  expect(await refusal(confused)).toBe("TUTTI_UNAUTHENTICATED");
});

test("with an issuer, tokens of another are refused", async () => {
  access.stop();
  open(writeJwks(first), "https://id.example");
  expect(await refusal(await token())).toBe("TUTTI_UNAUTHENTICATED");
  expect(await identify(await token({ issuer: "https://id.example" }))).toMatchObject({ app: "shop" });
});

test("keys are changed while it runs, and tokens of those that are gone come in no longer", async () => {
  const [old, young] = [await token(), await token({ by: second })];
  expect(await refusal(old)).toBe("it came in as token of shop");
  expect(await refusal(young)).toBe("TUTTI_UNAUTHENTICATED");
  writeJwks(second);
  await expect.poll(() => refusal(young)).toBe("it came in as token of shop");
  expect(await refusal(old)).toBe("TUTTI_UNAUTHENTICATED");
  writeFileSync(join(folder, "jwks.json"), "{}");
  await expect.poll(() => telemetry.texts("error")).toContain("the keys of tokens stay as they were");
  expect(await refusal(young)).toBe("it came in as token of shop");
});

test("keys come from an address, and where they can't be had the token is not called bad", async () => {
  let keys: readonly Pair[] | undefined = [first];
  const served = createServer((_, response) => {
    if (keys === undefined) response.writeHead(503).end();
    else response.end(JSON.stringify({ keys: keys.map(({ jwk }) => jwk) }));
  }).listen(0, "127.0.0.1");
  server = served;
  await once(served, "listening");
  const url = `http://127.0.0.1:${(served.address() as AddressInfo).port}/jwks`;
  access.stop();
  open(url);
  expect(await identify(await token())).toMatchObject({ app: "shop" });
  access.stop();
  open(url);
  keys = undefined;
  const failing = identify(await token());
  await expect(failing).rejects.toMatchObject({ code: "TUTTI_UNAVAILABLE", retryable: true });
});

test("keys that anybody on the way could change are not taken", () => {
  expect(() => new Access({ jwt: { jwks: "http://id.example/jwks" } }, undefined, telemetry.log)).toThrow(/use https/);
  expect(() => new Access({ jwt: { jwks: join(folder, "none.json") } }, undefined, telemetry.log)).toThrow(
    /none\.json/,
  );
});
