import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import { ROLES } from "@tutti/protocol";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createProgram } from "../program.ts";
import { bashCompletion } from "./bash.ts";
import { commandShapes } from "./command-shapes.ts";
import { fishCompletion } from "./fish.ts";
import { zshCompletion } from "./zsh.ts";

const shapes = commandShapes(createProgram());
let folder = "";
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "tutti-completion-"));
  writeFileSync(join(folder, "a scan.png"), "");
  mkdirSync(join(folder, "a folder"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Completions that a real bash offers at the end of each line. A trailing space begins a new word. */
function offers(lines: readonly string[], script = bashCompletion(shapes)): string[][] {
  const asked = lines.map((line) => {
    const words = line.split(" ").map((word) => `'${word}'`);
    return `COMP_WORDS=(${words.join(" ")}); COMP_CWORD=${words.length - 1}; _tutti; printf '%s\\n' "\${COMPREPLY[@]}" "--end--"`;
  });
  const out = execFileSync("bash", ["--norc", "--noprofile", "-c", `${script}\n${asked.join("\n")}`], {
    cwd: folder,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  const answers = out.split("--end--\n").slice(0, -1);
  return answers.map((answer) => answer.split("\n").filter((word) => word !== ""));
}

test("a real bash offers every command where it can be typed, with all of its options", () => {
  const lines = shapes.map(({ path }) => `tutti ${path} `.replace("  ", " "));
  const withOptions = lines.map((line) => `${line}--`);
  const [offered, options] = [offers(lines), offers(withOptions)];
  for (const [i, shape] of shapes.entries()) {
    if (shape.commands.length > 0)
      expect([shape.path, offered[i]]).toEqual([shape.path, shape.commands.map(({ name }) => name)]);
    expect([shape.path, options[i]]).toEqual([
      shape.path,
      shape.options.map(({ flag }) => flag).filter((flag) => flag.startsWith("--")),
    ]);
  }
});

test("what is offered begins like what is typed, and what follows an option is what it takes", () => {
  expect(
    offers([
      "tutti sta",
      "tutti plan p",
      "tutti infer --input a",
      "tutti up --models ",
      "tutti up --provider c",
      "tutti run ",
      "tutti run executor --eng",
      "tutti run executor --data-plane ",
      "tutti infer --app ",
      "tutti completion ",
    ]),
  ).toEqual([
    ["status"],
    ["pack"],
    ["a folder", "a scan.png"],
    ["a folder"],
    ["cpu", "cuda"],
    [...ROLES],
    ["--engine"],
    ["tcp", "nats"],
    [],
    ["bash", "zsh", "fish"],
  ]);
});

test("a value that is called like a command is a value", () => {
  const [sub, after] = offers(["tutti plan --cluster pack ", "tutti infer mlp --app plan --"]);
  expect(sub).toContain("pack");
  expect(after).toContain("--slo");
});

test("a command that is added is completed, with nothing else to be changed", () => {
  const program = new Command("tutti");
  program.command("polish <file>").option("--wax <kind>", "it's shiny: very").description("make it 'shine'");
  const mine = commandShapes(program);
  expect(offers(["tutti po", "tutti polish --", "tutti polish a"], bashCompletion(mine))).toEqual([
    ["polish"],
    ["--wax", "--help"],
    ["a folder", "a scan.png"],
  ]);
  expect(zshCompletion(mine)).toContain(String.raw`'--wax:it'\''s shiny\: very'`);
  expect(fishCompletion(mine)).toContain(String.raw`-l wax -d 'it\'s shiny: very' -x`);
});

test.for([
  ["zsh", zshCompletion(shapes)],
  ["fish", fishCompletion(shapes)],
] as const)("%s reads its script", ([shell, script], ctx) => {
  const path = join(folder, `.script.${shell}`);
  writeFileSync(path, script);
  const { error, status, stderr } = spawnSync(shell, ["-n", path], { encoding: "utf8" });
  rmSync(path);
  if (error !== undefined) return ctx.skip(`no ${shell} is here`);
  expect([status, stderr]).toEqual([0, ""]);
});
