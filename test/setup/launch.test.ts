import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { expect, onTestFinished, test } from "vitest";
import { STORAGES } from "../../infra/jaeger/jaeger.mjs";
import { serves, startsServer } from "../../infra/setup/launch.mjs";

test("a nats-server is brought for the commands that start one, and for no others", () => {
  const starts = (line: string): boolean => startsServer(line.split(" "));
  for (const line of ["up", "up --json --port 0", "up --nodes 2 -f tutti.yaml", "up --nats-port 1"])
    expect([line, starts(line)]).toEqual([line, true]);
  const others = [
    "up --help",
    "up -h",
    "up --json -h",
    "up --nats nats://a",
    "up --nats=nats://a",
    "status",
    "help up",
  ];
  for (const line of others) expect([line, starts(line)]).toEqual([line, false]);
  expect(startsServer([])).toBe(false);
});

test("the console's page is built for the commands that serve it, and not for a help text", () => {
  const isServing = (line: string): boolean => serves(line.split(" "));
  for (const line of ["up", "up --nats nats://a"]) expect([line, isServing(line)]).toEqual([line, true]);
  for (const line of ["up --help", "up --nats nats://a -h", "status"])
    expect([line, isServing(line)]).toEqual([line, false]);
});

/**
 * Launches a system that says what it hears of a Jaeger, on a machine whose go begins to build one and goes on only
 * when something is written to its pipe.
 */
function launched(args: readonly string[]) {
  const folder = mkdtempSync(join(tmpdir(), "tutti-launch-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const [system, go, pipe, module] = ["system.mjs", "go", "pipe", "module"].map((name) => join(folder, name)) as [
    ...[string, string, string, string],
  ];
  writeFileSync(
    system,
    `console.log("serves", process.env.TUTTI_JAEGER_COMES);
     process.on("message", ({ jaeger }) => (console.log("told", jaeger), process.exit(7)));
     process.on("SIGTERM", () => process.exit(0));`,
  );
  execFileSync("mkfifo", [pipe]);
  mkdirSync(dirname(join(module, STORAGES)), { recursive: true });
  writeFileSync(join(module, STORAGES), "");
  writeFileSync(
    go,
    `#!/bin/sh
     case "$1" in
       env) echo go1.26.8 ;;
       mod) echo '{"Dir":"${module}"}' ;;
       build) echo $$ > '${folder}/building'; read -r _ < '${pipe}'; : > jaeger-all-in-one ;;
     esac`,
  );
  chmodSync(go, 0o755);
  const script = `
    const { launch } = await import(${JSON.stringify(new URL("../../infra/setup/launch.mjs", import.meta.url).href)});
    await launch({ ready: { node: process.execPath }, state: ${JSON.stringify(folder)}, script: ${JSON.stringify(system)}, args: ${JSON.stringify(args)} });`;
  const env = {
    ...process.env,
    PATH: `${folder}:${process.env["PATH"]}`,
    TUTTI_JAEGER: "",
    TUTTI_JAEGER_SOURCES: "go",
  };
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], { env });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<string | undefined> => (await lines.next()).value;
  return { child, folder, pipe, next, exit: once(child, "exit") };
}

test("a system with --jaeger serves while the Jaeger is still built, and is told where it is", async () => {
  const { folder, pipe, next, exit } = launched(["up", "--jaeger"]);
  expect(await next()).toBe("serves 1");
  await expect.poll(() => existsSync(join(folder, "building")), { timeout: 20_000 }).toBe(true);
  writeFileSync(pipe, "\n"); // waits until the build reads it
  expect(await next()).toMatch(new RegExp(`^told ${folder}/bin/jaeger-`));
  expect(await exit).toEqual([7, null]);
});

test("a build that isn't done when the system ends, ends with it", async () => {
  const { child, folder, next, exit } = launched(["up", "--jaeger"]);
  expect(await next()).toBe("serves 1");
  await expect.poll(() => existsSync(join(folder, "building")), { timeout: 20_000 }).toBe(true);
  const pid = Number(execFileSync("cat", [join(folder, "building")], { encoding: "utf8" }));
  child.kill("SIGTERM");
  await exit;
  await expect.poll(() => existsSync(`/proc/${pid}`), { timeout: 20_000 }).toBe(false);
});

test("for a help text no Jaeger is brought", async () => {
  const { child, folder, next } = launched(["up", "--jaeger", "--help"]);
  expect(await next()).toBe("serves undefined");
  child.kill("SIGTERM");
  expect(existsSync(join(folder, "building"))).toBe(false);
});
