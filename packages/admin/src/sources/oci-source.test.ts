import { createHash } from "node:crypto";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type OciModel, fetchOci } from "./oci-source.ts";
import { BlobCache } from "./blob-cache.ts";
import { type OciUrl, parseModelUrl } from "./model-url.ts";
import { TestRegistry, USER } from "./testing/registry.ts";

let folder = "";
let registry: TestRegistry;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tutti-oci-"));
});
afterEach(() => {
  registry.stop();
  rmSync(folder, { recursive: true });
});

const MODEL = Buffer.from("a model");
const SHA256 = createHash("sha256").update(MODEL).digest("hex");
const LAYERS = [
  { bytes: MODEL, title: "mlp.onnx" },
  { bytes: Buffer.from("slo: 20ms"), title: "config.yaml" },
];
const pull = (reference: string, env: NodeJS.ProcessEnv = {}): Promise<OciModel> =>
  fetchOci(
    parseModelUrl(`oci://${registry.host}/team/mlp${reference}`) as OciUrl,
    new BlobCache(join(folder, "cache"), 1_000),
    { env: { HOME: folder, ...env } },
  );

test("an artefact's model and configuration are pulled by tag and by digest, and blobs only once", async () => {
  registry = await TestRegistry.start();
  const digest = registry.push("team/mlp", "v1", LAYERS);
  for (const reference of [":v1", `@${digest}`])
    expect(await pull(reference)).toEqual({ bytes: new Uint8Array(MODEL), sha256: SHA256, config: "slo: 20ms" });
  expect(registry.blobs.asked).toHaveLength(2);
});

test("a blob that isn't its digest, and a manifest that isn't, are refused", async () => {
  registry = await TestRegistry.start();
  registry.push("team/mlp", "v1", LAYERS);
  registry.push("team/mlp", `sha256:${"0".repeat(64)}`, LAYERS);
  registry.damage(MODEL, Buffer.from("another"));
  await expect(pull(":v1")).rejects.toThrow(/is another file: its sha256 is/);
  await expect(pull(`@sha256:${"0".repeat(64)}`)).rejects.toThrow(/gives another manifest, sha256:/);
  await expect(pull(`:v1#sha256=${"0".repeat(64)}`)).rejects.toThrow(/its sha256 is .* is demanded/);
});

test("a closed registry is entered by docker's login, and the password goes to the realm alone", async () => {
  registry = await TestRegistry.start({ isClosed: true });
  registry.push("team/mlp", "v1", LAYERS);
  const auth = Buffer.from(USER).toString("base64");
  const config = JSON.stringify({ auths: { [registry.host]: { auth } } });
  expect((await pull(":v1", { DOCKER_AUTH_CONFIG: config })).sha256).toBe(SHA256);
  for (const { headers } of registry.blobs.asked) expect(headers.authorization).toBeUndefined();
  mkdirSync(join(folder, ".docker"));
  writeFileSync(join(folder, ".docker/config.json"), config);
  expect((await pull(":v1")).sha256).toBe(SHA256);
  const wrong = { auths: { [registry.host]: { auth: Buffer.from("me:wrong").toString("base64") } } };
  const failure = pull(":v1", { DOCKER_AUTH_CONFIG: JSON.stringify(wrong) });
  await expect(failure).rejects.toThrow(
    `access denied (HTTP 401): \`docker login ${registry.host}\`, or DOCKER_AUTH_CONFIG`,
  );
  await expect(pull(":v1", { DOCKER_AUTH_CONFIG: "{" })).rejects.toThrow(/DOCKER_AUTH_CONFIG is no JSON/);
});

test("a token that ends between two layers is replaced, and a bulky configuration keeps the model from coming", async () => {
  registry = await TestRegistry.start({ isClosed: true });
  registry.push("team/mlp", "v1", LAYERS);
  const auth = Buffer.from(USER).toString("base64");
  const login = { DOCKER_AUTH_CONFIG: JSON.stringify({ auths: { [registry.host]: { auth } } }) };
  registry.endTokenAfter(2);
  expect(await pull(":v1", login)).toMatchObject({ sha256: SHA256, config: "slo: 20ms" });
  expect(registry.front.asked.filter(({ url }) => url?.startsWith("/token"))).toHaveLength(2);
  const bulky = { bytes: Buffer.alloc(4_194_305), title: "config.yaml" };
  registry.push("team/mlp", "v2", [{ bytes: Buffer.from("another model"), title: "mlp.onnx" }, bulky]);
  registry.blobs.asked.length = 0;
  await expect(pull(":v2", login)).rejects.toThrow(/larger than the 4 MiB/);
  expect(registry.blobs.asked).toHaveLength(1);
});

test("a credential helper is asked as docker asks it", async () => {
  registry = await TestRegistry.start({ isClosed: true });
  registry.push("team/mlp", "v1", LAYERS);
  const helper = join(folder, "docker-credential-mine");
  const [user, secret] = USER.split(":");
  writeFileSync(
    helper,
    `#!/bin/sh\nread -r host\ncase "$1 $host" in "get ${registry.host}")\necho '{"Username":"${user}","Secret":"${secret}"}';; *) exit 1;; esac\n`,
  );
  chmodSync(helper, 0o700);
  const PATH = `${folder}:${process.env["PATH"]}`;
  const using = (name: string): string => JSON.stringify({ credsStore: name });
  expect((await pull(":v1", { PATH, DOCKER_AUTH_CONFIG: using("mine") })).sha256).toBe(SHA256);
  await expect(pull(":v1", { PATH, DOCKER_AUTH_CONFIG: using("other") })).rejects.toThrow(/docker-credential-other: /);
  await expect(pull(":v1", { PATH, DOCKER_AUTH_CONFIG: using("../../x") })).rejects.toThrow(
    /names a helper "..\/..\/x"/,
  );
});

test("an artefact without exactly one model is refused with how to make one; titles are never paths", async () => {
  registry = await TestRegistry.start();
  const push = (layers: Parameters<TestRegistry["push"]>[2]): void => void registry.push("team/mlp", "v1", layers);
  push([...LAYERS, { bytes: Buffer.from("b"), title: "b.onnx" }]);
  await expect(pull(":v1")).rejects.toThrow(/several models in the artefact: `oras push/);
  push([{ bytes: MODEL, title: "m.onnx", mediaType: "application/vnd.oci.image.layer.v1.tar+gzip" }]);
  await expect(pull(":v1")).rejects.toThrow(/no model in the artefact/);
  push([]);
  await expect(pull(":v1")).rejects.toThrow(/no model in the artefact/);
  push([{ bytes: MODEL }]);
  expect((await pull(":v1")).sha256).toBe(SHA256);
  push([{ bytes: MODEL, title: "../../../../tmp/evil.onnx" }]);
  expect((await pull(":v1")).sha256).toBe(SHA256);
  await expect(pull(":v2")).rejects.toThrow(/the registry has no such artefact/);
});
