/** The containers of compose.yaml find the files that it mounts, and `tutti` takes their options. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";

const ROOT = join(import.meta.dirname, "../..");

interface Service {
  readonly command?: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly volumes?: readonly string[];
}
const { services } = parse(readFileSync(join(ROOT, "compose.yaml"), "utf8"), { merge: true }) as {
  readonly services: Readonly<Record<string, Service>>;
};
/** Files of this clone by where containers see them. */
const mounts = ({ volumes = [] }: Service): ReadonlyMap<string, string> =>
  new Map(
    volumes
      .map((volume) => volume.split(":"))
      .filter(([from]) => from!.startsWith("./"))
      .map(([from, to]) => [to!, join(ROOT, from!)]),
  );

test("every file that compose.yaml mounts is there", () => {
  const files = Object.values(services).flatMap((service) => [...mounts(service).values()]);
  expect(files.length).toBeGreaterThan(4);
  expect(files.filter((file) => !existsSync(file))).toEqual([]);
});

test.each(["node", "executor"])("`tutti` takes the options of the container %s", (name) => {
  const service = services[name]!;
  const files = mounts(service);
  const words = service.command!.split(" ").map((word) => files.get(word) ?? word);
  const printed = execFileSync(process.execPath, ["packages/cli/src/main.ts", "config", "print", ...words, "--json"], {
    cwd: ROOT,
    encoding: "utf8",
    env: { PATH: process.env["PATH"], ...service.environment },
  });
  const { options } = JSON.parse(printed) as { options: { name: string; value: string }[] };
  const inForce = Object.fromEntries(options.map((option) => [option.name, option.value]));
  expect(inForce).toMatchObject({ nats: "nats://nats:4222", health: "0.0.0.0:8003", otlp: "http://jaeger:4318" });
  expect(inForce).toMatchObject(
    name === "node" ? { "http-host": "0.0.0.0", "data-host": "node" } : { state: "/data/state" },
  );
});
