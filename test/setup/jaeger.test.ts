import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import {
  STORAGES,
  VERSION,
  bringJaeger,
  containerScript,
  expectedSum,
  findJaeger,
  memoryOnly,
} from "../../infra/jaeger/jaeger.mjs";
import { machine } from "./machine.ts";

let state = "";
beforeEach(() => void (state = mkdtempSync(join(tmpdir(), "tutti-jaeger-"))));
afterEach(() => rmSync(state, { recursive: true, force: true }));
const kept = (): string => join(state, "bin", `jaeger-${VERSION}`);
function place(path: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, "");
}

test("one that is named is taken before any other, and one that can't be run is said to be so", () => {
  const env = { PATH: "/usr/bin", TUTTI_JAEGER: "/opt/jaeger" };
  const programs = { "/opt/jaeger": () => "", "/usr/bin/jaeger-all-in-one": () => "" };
  expect(findJaeger(machine({ env, programs }), state)).toMatchObject({ path: "/opt/jaeger", source: "TUTTI_JAEGER" });
  expect(() => findJaeger(machine({ env }), state)).toThrow("can't be run");
});

test("one on the path is found, and none is no error", () => {
  const programs = { "/usr/bin/jaeger-all-in-one": () => "" };
  expect(findJaeger(machine({ programs }), state)).toMatchObject({ source: "path", hasPage: true });
  expect(findJaeger(machine({}), state)).toBe(undefined);
});

test("go builds it as the main module, since it has replacements; it is kept, found again, and known to have no page", async () => {
  const module = join(state, "module");
  for (const file of ["cmd/all-in-one/main.go", STORAGES]) place(join(module, file));
  const programs = {
    "/usr/bin/go": (args: string[]) => (args[0] === "env" ? "go1.26.8" : JSON.stringify({ Dir: module })),
    nice: () => (place(join(state, "jaeger-source/jaeger-all-in-one")), ""),
    [kept()]: () => "",
  };
  const host = machine({ programs });
  expect(await bringJaeger(host, state)).toEqual({ path: kept(), source: "go", hasPage: false });
  expect(host.calls).toContain(`/usr/bin/go mod download -json github.com/jaegertracing/jaeger@v${VERSION}`);
  expect(host.calls.some((call) => call.startsWith("nice -n 15 /usr/bin/go build"))).toBe(true);
  expect(existsSync(join(state, "jaeger-source"))).toBe(false);
  expect(findJaeger(host, state)).toEqual({ path: kept(), source: "cache, go", hasPage: false });
  const named = { ...host, env: { ...host.env, TUTTI_JAEGER: kept() } };
  expect(findJaeger(named, state)).toEqual({ path: kept(), source: "TUTTI_JAEGER", hasPage: false });
});

test("storages other than the memory are left out of a build: their imports and their cases", () => {
  const [head, tail] = [
    "import (\n",
    '\t"github.com/jaegertracing/jaeger/internal/storage/v1/memory"\n)\nswitch type {\n',
  ];
  const memory = "\tcase memoryStorageType:\n\t\treturn memory.NewFactory(), nil\n";
  const [es, kafka] = ["elasticsearch", "kafka"].map(
    (name) => `"github.com/jaegertracing/jaeger/internal/storage/v1/${name}"`,
  );
  const others =
    "\tcase elasticsearchStorageType, opensearchStorageType:\n\t\treturn es.NewArchiveFactory(), true\n" +
    "\tcase kafkaStorageType:\n\t\treturn kafka.NewFactory(), nil\n";
  expect(memoryOnly(`${head}\tes ${es}\n\t${kafka}\n${tail}${memory}${others}}\n`)).toBe(`${head}${tail}${memory}}\n`);
});

test("a go that is too old builds none, and every way that failed is named with what to do", async () => {
  const host = machine({ programs: { "/usr/bin/go": () => "go1.22.1" } });
  await expect(bringJaeger(host, state)).rejects.toThrow(
    /releases: .*out of reach\n.*container: neither docker nor podman answers here\n.*go 1\.22\.1 is too old[^]*TUTTI_JAEGER/,
  );
});

test("a release whose sha256 isn't the project's is thrown away, and one whose is, is unpacked", async () => {
  const archive = new TextEncoder().encode("an archive");
  const name = `jaeger-${VERSION}-linux-amd64`;
  const release = (sum: string) =>
    machine({
      env: { PATH: "/usr/bin", TUTTI_JAEGER_SOURCES: "release" },
      programs: { tar: () => (place(join(state, "jaeger-release/jaeger-all-in-one")), ""), [kept()]: () => "" },
      download: (url) =>
        Promise.resolve(url.endsWith(".txt") ? new TextEncoder().encode(`${sum} *${name}.tar.gz\n`) : archive),
    });
  await expect(bringJaeger(release("0".repeat(64)), state)).rejects.toThrow("the release says 0000");
  const sum = createHash("sha256").update(archive).digest("hex");
  expect(await bringJaeger(release(sum), state)).toEqual({ path: kept(), source: "release", hasPage: true });
});

test("sums are found by a file's name, with or without its folder", () => {
  expect(expectedSum("aa  ./x/one.tar.gz\nbb *two.tar.gz\n", "one.tar.gz")).toBe("aa");
  expect(expectedSum("aa  ./x/one.tar.gz\nbb *two.tar.gz\n", "two.tar.gz")).toBe("bb");
  expect(expectedSum("", "one.tar.gz")).toBe(undefined);
});

test("where a container engine answers, a script runs the image as if it were the program", async () => {
  const programs = { "/usr/bin/docker": () => "" };
  const env = { PATH: "/usr/bin", TUTTI_JAEGER_SOURCES: "container" };
  expect(await bringJaeger(machine({ env, programs }), state)).toMatchObject({ source: "container", hasPage: true });
  expect(readFileSync(kept(), "utf8")).toBe(containerScript("/usr/bin/docker"));
  expect(containerScript("/usr/bin/docker")).toContain("--network host");
});
