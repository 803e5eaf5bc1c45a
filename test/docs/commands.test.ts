/**
 * Checks that the documentation's commands and snippets work. Names and flags of all are checked; the commands that
 * guides and README show are run. Live commands: test/e2e/serving.test.ts.
 */
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { upOptionsInForce } from "@tutti/host";
import { planCluster, readUpOptions } from "@tutti/host/up";
import { PROCESS_ROLES } from "@tutti/protocol";
import ts from "typescript";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type DocBlock,
  ROOT,
  blocksOf,
  commandsIn,
  filesBelow,
  guideCommands,
  guides,
  placeOf,
} from "../fixtures/doc-blocks.ts";
import { problemOf } from "./tutti-words.ts";

const documents = [
  "README.md",
  ...filesBelow("docs", ".md"),
  ...["clients", "packages", "services", "infra", "test"].flatMap((folder) => filesBelow(folder, "README.md")),
];

let folder: string;
beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), "tutti-docs-"))));
afterAll(() => rmSync(folder, { recursive: true }));

test("every block of the README and of the guides says what tests do with it", () => {
  const kinds: Readonly<Record<string, readonly string[]>> = {
    sh: ["live", "offline", "shown"],
    console: ["live", "offline", "shown"],
    ...{ ts: [""], python: [""], yaml: [""], json: [""], text: [""] },
  };
  const unclear = guides()
    .flatMap(blocksOf)
    .filter(({ language, kind }) => !(kinds[language] ?? []).includes(kind));
  expect(unclear.map((block) => `${placeOf(block)} says "${block.language} ${block.kind}"`)).toEqual([]);
});

test("every command in every document is one that there is, with flags that it has", () => {
  const commands = documents
    .flatMap(blocksOf)
    .filter(({ language }) => ["", "sh", "bash", "console"].includes(language))
    .flatMap(commandsIn);
  const wrong = commands.flatMap(({ block, text }) => {
    const problem = problemOf(text);
    return problem === undefined ? [] : [`${placeOf(block)}: ${text}: ${problem}`];
  });
  expect(wrong).toEqual([]);
  expect(commands.filter(({ text }) => /^(bin\/)?tutti /.test(text)).length).toBeGreaterThan(60);
});

test("processes that documents restart, drain, split and read the logs of are there in the default layout", () => {
  const options = readUpOptions(upOptionsInForce({ flags: new Map([["executors", "2"]]), env: {} }));
  const names = planCluster(options, { url: "nats://127.0.0.1:4222", credentials: {} }).map(({ name }) => name);
  const known = new Set<string>([...names, ...PROCESS_ROLES, "all"]);
  // Names begin with a letter, and an actor's id in these texts with a digit.
  const named = /\btutti (?:restart|drain|undrain|split|logs) ([a-z][a-z-]*\d*)\b/g;
  const asked = documents.flatMap((file) =>
    Array.from(readFileSync(join(ROOT, file), "utf8").matchAll(named), ([text, name]) => ({ file, text, name: name! })),
  );
  expect(asked.filter(({ name }) => !known.has(name))).toEqual([]);
  expect(asked.length).toBeGreaterThan(10);
});

test("what no command would understand is found", () => {
  expect(problemOf("bin/tutti simulat x.yaml")).toContain("no command");
  expect(problemOf("bin/tutti simulate x.yaml --nope 3")).toContain("--nope");
  expect(problemOf("bin/tutti simulate")).toContain("more words");
  expect(problemOf("bin/tutti goodput x.yaml --rate")).toContain("argument missing");
  expect(problemOf("bin/tutti run executor --policy eager")).toContain("--policy");
  expect(problemOf("npm run nothing")).toContain("nothing");
  expect(problemOf("npx vitest run --project nowhere")).toContain("nowhere");
  expect(problemOf("npx vitest run packages/nowhere")).toContain("nowhere");
});

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}
/** Runs a command under this process' Node, with `$FOLDER` for its output files. */
const run = (command: string): Promise<Ended> =>
  new Promise((resolve) => {
    const line = command.replaceAll(/(^|\| )bin\/tutti/g, `$1"${process.execPath}" packages/cli/src/main.ts`);
    const env = { ...process.env, FOLDER: folder };
    execFile("bash", ["-c", line], { cwd: ROOT, env }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code ?? 1), stdout, stderr }),
    );
  });

test.each(guideCommands("offline").map((command) => [command.text, command] as const))("%s", async (_text, command) => {
  const { code, stdout, stderr } = await run(command.text);
  expect(code, `${placeOf(command.block)}: ${stderr}`).toBe(0);
  if (command.output.length > 0) expect(stdout.trimEnd().split("\n")).toSatisfy(fits(command.output));
});

/** Matches the shown output, where `…` stands for any lines. */
const fits =
  (shown: readonly string[]) =>
  (said: readonly string[]): boolean => {
    const lines = shown.join("\n").trimEnd().split("\n");
    const pattern = lines
      .map((line) => (line === "…" ? "[^]*" : line.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&")))
      .join("\n");
    return new RegExp(`^${pattern}$`).test(said.join("\n"));
  };

test("TypeScript in the README, the guides and the client's README is type-checked against the packages", () => {
  const blocks = [...guides(), "packages/client/README.md"]
    .flatMap(blocksOf)
    .filter(({ language }) => language === "ts");
  expect(blocks.length).toBeGreaterThan(2);
  expect(diagnosticsOf(blocks)).toEqual([]);
});

/** Variables that the snippets of the client's README leave to the reader. */
const GIVEN =
  "declare const pixels: Float32Array, line: { x: Float32Array }, inputs: { x: Float32Array }, abort: AbortController;";

function diagnosticsOf(blocks: readonly DocBlock[]): string[] {
  const { config } = ts.readConfigFile(join(ROOT, "tsconfig.base.json"), (path) => ts.sys.readFile(path)) as {
    config: { compilerOptions: object };
  };
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, ROOT);
  const checked = {
    ...options,
    noEmit: true,
    composite: false,
    declaration: false,
    skipLibCheck: true,
    noUnusedLocals: false,
  };
  const names = new Map(blocks.map((block, i) => [join(ROOT, "test/docs", `snippet-${i}.ts`), block]));
  const host = ts.createCompilerHost(checked);
  const { getSourceFile, fileExists } = host;
  host.fileExists = (path) => names.has(path) || fileExists(path);
  host.getSourceFile = (path, ...rest) => {
    const block = names.get(path);
    if (block === undefined) return getSourceFile(path, ...rest);
    return ts.createSourceFile(path, `${GIVEN}\n${block.text}\nexport {};\n`, ts.ScriptTarget.Latest, true);
  };
  const program = ts.createProgram([...names.keys()], checked, host);
  return [...names].flatMap(([path, block]) => {
    const source = program.getSourceFile(path)!;
    return [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)].map(
      ({ messageText }) => `${placeOf(block)}: ${ts.flattenDiagnosticMessageText(messageText, " ")}`,
    );
  });
}
