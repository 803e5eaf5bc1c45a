import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { RequestListener } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { awsCredentials, awsRegion } from "./aws-credentials.ts";
import { sectionOf } from "./aws-profile.ts";
import { Listener } from "./testing/listener.ts";

let home = "";
const open: Listener[] = [];
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "tutti-aws-"));
  mkdirSync(join(home, ".aws"));
});
afterEach(() => {
  rmSync(home, { recursive: true });
  for (const listener of open.splice(0)) listener.stop();
});

const env = (rest: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv => ({
  ...{ HOME: home, AWS_EC2_METADATA_DISABLED: "true" },
  ...rest,
});
const write = (name: string, text: string): void => writeFileSync(join(home, ".aws", name), text);
async function listen(answer: RequestListener): Promise<Listener> {
  const listener = await Listener.start(answer);
  open.push(listener);
  return listener;
}
const KEYS = { AWS_ACCESS_KEY_ID: "AKID", AWS_SECRET_ACCESS_KEY: "secret" };
const SAID = JSON.stringify({ AccessKeyId: "A", SecretAccessKey: "B", Token: "C", Expiration: "2030-01-01T00:00:00Z" });
const TAKEN = { accessKeyId: "A", secretAccessKey: "B", sessionToken: "C", expiresMs: Date.UTC(2030, 0) };

test("the environment comes first, and without any place there are none", async () => {
  write("credentials", "[default]\naws_access_key_id = P\naws_secret_access_key = Q\n");
  const own = { accessKeyId: "AKID", secretAccessKey: "secret" };
  expect(await awsCredentials(env(KEYS))).toEqual(own);
  expect(await awsCredentials(env({ ...KEYS, AWS_SESSION_TOKEN: "t" }))).toEqual({ ...own, sessionToken: "t" });
  expect(await awsCredentials(env())).toEqual({ accessKeyId: "P", secretAccessKey: "Q" });
  expect(await awsCredentials(env({ HOME: join(home, "nowhere") }))).toBeUndefined();
  // A variable that is set to nothing counts as absent.
  expect(await awsCredentials(env({ ...KEYS, AWS_PROFILE: "" }))).toEqual(own);
  expect(await awsCredentials(env({ AWS_PROFILE: "", HOME: join(home, "nowhere") }))).toBeUndefined();
  expect(await awsRegion(env({ AWS_REGION: "", AWS_DEFAULT_REGION: "eu-west-2" }))).toBe("eu-west-2");
});

test("a profile gives keys, a region, or a process that prints keys; of others it says what to do", async () => {
  const program = join(home, "keys");
  writeFileSync(program, `#!/bin/sh\n[ "$1" = good ] && echo '${SAID}'\n`);
  chmodSync(program, 0o700);
  write(
    "config",
    `[profile run]\ncredential_process = ${program} good\nregion = eu-west-1\ns3 =\n  region = x\n[profile bad]\ncredential_process=${program} s3cret\n[profile sso]\nsso_session = me\n`,
  );
  expect(await awsCredentials(env({ ...KEYS, AWS_PROFILE: "run" }))).toMatchObject(TAKEN);
  expect(await awsRegion(env({ AWS_PROFILE: "run" }))).toBe("eu-west-1");
  expect(await awsRegion(env({ AWS_PROFILE: "run", AWS_REGION: "us-west-2" }))).toBe("us-west-2");
  expect(await awsRegion(env())).toBe("us-east-1");
  const failure = await awsCredentials(env({ AWS_PROFILE: "bad" })).catch((error: Error) => error.message);
  expect(failure).toBe('credential_process of AWS profile "bad" failed (1)');
  await expect(awsCredentials(env({ AWS_PROFILE: "sso" }))).rejects.toThrow(
    /aws configure export-credentials --profile sso/,
  );
});

test("sections and keys are read as AWS writes them", () => {
  const text = "# c\n[ profile  a ]\r\nKey = v = w \r\n nested = 1\n[profile b]\nkey=2\n";
  expect(sectionOf(text, "profile a")).toEqual({ key: "v = w" });
  expect(sectionOf(text, "c")).toEqual({});
});

test("a token of Kubernetes is exchanged for credentials of its role", async () => {
  writeFileSync(join(home, "token"), "jwt\n");
  let body = "";
  const sts = await listen((request, response) => {
    request.on("data", (chunk: Buffer) => (body += chunk.toString()));
    request.on("end", () => {
      const fields = "<AccessKeyId>A</AccessKeyId><SecretAccessKey>B</SecretAccessKey><SessionToken>C</SessionToken>";
      response.end(`<R>${fields}<Expiration>2030-01-01T00:00:00Z</Expiration></R>`);
    });
  });
  const irsa = { AWS_WEB_IDENTITY_TOKEN_FILE: join(home, "token"), AWS_ROLE_ARN: "arn:aws:iam::1:role/r" };
  expect(await awsCredentials(env({ ...irsa, AWS_ENDPOINT_URL_STS: sts.url }))).toEqual(TAKEN);
  expect(Object.fromEntries(new URLSearchParams(body))).toMatchObject({
    ...{ Action: "AssumeRoleWithWebIdentity", RoleArn: "arn:aws:iam::1:role/r", WebIdentityToken: "jwt" },
  });
  const denying = await listen((_, response) => void response.writeHead(403).end("<Code>AccessDenied</Code>"));
  await expect(awsCredentials(env({ ...irsa, AWS_ENDPOINT_URL_STS: denying.url }))).rejects.toThrow(
    /^AWS STS gives no credentials: HTTP 403 AccessDenied$/,
  );
});

test("a container's address is asked with its token, and must be of this machine or HTTPS", async () => {
  writeFileSync(join(home, "token"), "pod-token");
  const { url, asked } = await listen((_, response) => void response.end(SAID));
  const pod = {
    AWS_CONTAINER_CREDENTIALS_FULL_URI: `${url}/v1`,
    AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: join(home, "token"),
  };
  expect(await awsCredentials(env(pod))).toEqual(TAKEN);
  expect(asked[0]?.headers.authorization).toBe("pod-token");
  for (const other of ["http://10.0.0.1/x", "http://127.example/", "file:///etc/passwd", "x"])
    await expect(awsCredentials(env({ AWS_CONTAINER_CREDENTIALS_FULL_URI: other }))).rejects.toThrow(/of this machine/);
});

test("a machine of EC2 is asked in two steps, and one that is none is given up", async () => {
  const { url, asked } = await listen(({ method, url: path = "", headers }, response) => {
    if (method === "PUT") response.end("imds-token");
    else if (headers["x-aws-ec2-metadata-token"] !== "imds-token") response.writeHead(401).end();
    else response.end(path.endsWith("/role-1") ? SAID : "role-1\n");
  });
  const machine = { HOME: home, AWS_EC2_METADATA_SERVICE_ENDPOINT: url };
  expect(await awsCredentials(machine)).toEqual(TAKEN);
  expect(asked.map(({ url: path }) => path)).toEqual([
    ...["/latest/api/token", "/latest/meta-data/iam/security-credentials/"],
    "/latest/meta-data/iam/security-credentials/role-1",
  ]);
  const silent = await listen(() => undefined);
  const before = performance.now();
  expect(await awsCredentials({ HOME: home, AWS_EC2_METADATA_SERVICE_ENDPOINT: silent.url })).toBeUndefined();
  expect(performance.now() - before).toBeLessThan(10_000);
});
