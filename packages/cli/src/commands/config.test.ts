import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { PATIENCE_MS, typedIn } from "../testing/typed-command.ts";

let folder = "";
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "tutti-config-print-"));
  writeFileSync(join(folder, "up.yaml"), "policy: eager\nmodels: models\ndemo: false\nhttp-port: 8100\n");
  writeFileSync(
    join(folder, "roles.yaml"),
    "nats: [nats://user:s3cret@a:4222, nats://b]\ncreds: creds/executor.nk\notlp: http://t0ken@c:4318\npolicy: eager\n",
  );
  writeFileSync(join(folder, "misspelt.yaml"), "nats: nats://a\npolcy: eager\n");
});
afterAll(() => rmSync(folder, { recursive: true }));

const tutti = (...args: string[]) => typedIn(folder)(...args);

test(
  "config print shows every option in force, and whether a flag, a variable, the file or nobody has said it",
  { timeout: PATIENCE_MS },
  async () => {
    process.env["TUTTI_GATHER"] = "head";
    const { code, stdout } = await tutti("config", "print", "-f", "up.yaml", "--patience", "0.5");
    delete process.env["TUTTI_GATHER"];
    const rows = new Map(stdout.split("\n").map((line) => [line.split(/ {2,}/)[0], line.split(/ {2,}/).slice(1)]));
    expect(code).toBe(0);
    expect(
      ["policy", "models", "demo", "gather", "patience", "latency", "executors"].map((name) => rows.get(name)),
    ).toEqual([
      ["eager", "up.yaml:1"],
      [join(folder, "models"), "up.yaml:2"],
      ["false", "up.yaml:3"],
      ["head", "env TUTTI_GATHER"],
      ["0.5", "flag"],
      ["hints", "default"],
      ["(cores - 1 or GPUs; with --emulate 1)", "default"],
    ]);
  },
);

test("config print names files of secrets, and prints no secret of an address", { timeout: PATIENCE_MS }, async () => {
  const { code, stdout } = await tutti("config", "print", "run", "executor,ranker", "-f", "roles.yaml", "--json");
  const { command, options } = JSON.parse(stdout) as { command: string; options: Record<string, unknown>[] };
  expect([code, command]).toEqual([0, "run executor,ranker"]);
  expect(options.filter(({ source }) => source !== "default")).toEqual([
    { name: "nats", value: "nats://***@a:4222,nats://b", source: "roles.yaml:1" },
    { name: "creds", value: join(folder, "creds/executor.nk"), source: "roles.yaml:2" },
    { name: "otlp", value: "http://***@c:4318", source: "roles.yaml:3" },
  ]);
  expect(options).toContainEqual({ name: "host", value: null, otherwise: "its hostname", source: "default" });
  expect(stdout).not.toMatch(/s3cret|t0ken/);
});

test("config print hides secrets of addresses however they are written", { timeout: PATIENCE_MS }, async () => {
  const printed = async (...flags: string[]): Promise<unknown[]> => {
    const { stdout } = await tutti("config", "print", "run", "gateway", ...flags, "--json");
    const { options } = JSON.parse(stdout) as { options: { value: unknown; source: string }[] };
    return options.filter(({ source }) => source === "flag").map(({ value }) => value);
  };
  expect(await printed("--nats=user:s3cret@a:4222,b:4222", "--jwks=https://h/keys?token=abc&more=de=f&ghi&")).toEqual([
    "***@a:4222,b:4222",
    "https://h/keys?token=***&more=***&***&",
  ]);
  const nats = ["nats://u:p,w@a", "nats://u:p@ss@b", "tls://t0ken@c", "nats://u:p?w@d", "wss://e:p/f@g", "nats://h"];
  expect(await printed(`--nats=${nats.join(",")}`, "--jwks=/etc/keys@host?.json")).toEqual([
    "nats://***@a,nats://***@b,tls://***@c,nats://***@d,wss://***@g,nats://h",
    "/etc/keys@host?.json",
  ]);
});

test(
  "a misspelt key ends `up`, `run` and `config print` with its place and the nearest key, and nothing is started",
  { timeout: PATIENCE_MS },
  async () => {
    for (const args of [["up"], ["run", "node"], ["config", "print"]]) {
      const { code, stdout, stderr } = await tutti(...args, "-f", "misspelt.yaml");
      expect([args, code, stdout]).toEqual([args, 2, ""]);
      expect(stderr).toBe('tutti: misspelt.yaml:2:1: polcy: unknown key; did you mean "policy"?\n');
    }
  },
);

test(
  "a value that can't be is refused where it stands, by `config print` as by the command itself",
  { timeout: PATIENCE_MS },
  async () => {
    writeFileSync(join(folder, "lazy.yaml"), "\npolicy: lazy\n");
    for (const args of [["up"], ["config", "print", "run", "node"]]) {
      const { code, stderr } = await tutti(...args, "-f", "lazy.yaml");
      expect([code, stderr]).toEqual([2, expect.stringMatching(/^tutti: lazy.yaml:2:9: --policy lazy: take adaptive/)]);
    }
    expect((await tutti("config", "print", "upp")).stderr).toContain('did you mean "up"');
  },
);
