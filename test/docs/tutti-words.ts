/** Checks that a command of the documentation is understood: names, flags and their values. It runs nothing. */
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { createProgram } from "@tutti/cli/program";
import { FILE_OPTION, FLAGS, flagsOf } from "@tutti/host/role";
import { NODE_ROLES, isRole } from "@tutti/protocol";
import { ROOT, wordsOf } from "../fixtures/doc-blocks.ts";

const scripts = (
  JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { scripts: Readonly<Record<string, string>> }
).scripts;
const suites = new Set(["unit", "check", ...readdirSync(join(ROOT, "test"))]);

/** The problem of a command; undefined where it is correct, or isn't a command of ours. */
export function problemOf(command: string): string | undefined {
  const words = wordsOf(command.replace(/^([A-Z_]+=\S+ )+/, ""));
  const [first = "", second = "", ...rest] = words;
  if (first === "bin/tutti" || first === "tutti") return tuttiProblem(words.slice(1));
  if (first === "npm") return npmProblem(second, rest);
  if (first === "npx" && second === "vitest") return vitestProblem(rest);
  return undefined;
}

/** Words that npm passes on. */
const handedOn = (words: readonly string[]): string[] =>
  words.includes("--") ? words.slice(words.indexOf("--") + 1) : [];

function npmProblem(verb: string, rest: readonly string[]): string | undefined {
  if (verb === "start") return tuttiProblem(["up", ...handedOn(rest)]);
  if (verb === "test") return handedOn(rest).map(filterProblem).find(Boolean);
  if (verb !== "run") return undefined;
  const [script = ""] = rest;
  if (scripts[script] === undefined) return `package.json has no script "${script}"`;
  return script === "tutti" ? tuttiProblem(handedOn(rest)) : undefined;
}

function vitestProblem(words: readonly string[]): string | undefined {
  const [, ...rest] = words;
  for (let i = 0; i < rest.length; i++) {
    const word = rest[i]!;
    if (word === "--project") {
      const project = rest[++i] ?? "";
      if (!suites.has(project)) return `there is no suite "${project}"`;
    } else if (word === "-t") i++;
    else if (!word.startsWith("-")) {
      const problem = filterProblem(word);
      if (problem !== undefined) return problem;
    }
  }
  return undefined;
}

/** Problem of a suite's name, or of the beginning of a path. */
function filterProblem(word: string): string | undefined {
  if (suites.has(word) || word.startsWith("-")) return undefined;
  const at = word.lastIndexOf("/");
  const [folder, beginning] = [word.slice(0, at + 1), word.slice(at + 1)];
  const there = at > 0 && existsSync(join(ROOT, folder)) ? readdirSync(join(ROOT, folder)) : [];
  return there.some((name) => name.startsWith(beginning)) ? undefined : `no test lies at ${word}`;
}

/** Commands that have commands below them, and do something by themselves. */
const ALONE: ReadonlySet<string> = new Set(["jobs"]);

function tuttiProblem(words: readonly string[]): string | undefined {
  let command = createProgram();
  let rest = [...words];
  for (;;) {
    const next = command.commands.find((one) => one.name() === rest[0]);
    if (next === undefined) break;
    command = next;
    rest = rest.slice(1);
  }
  const asked = rest.filter((word) => !["--help", "-h", "--version"].includes(word));
  if (asked.length < rest.length) return undefined;
  const mayStandAlone = ALONE.has(command.name()) && rest.length === 0;
  if (command.commands.length > 0 && !mayStandAlone && !rest[0]?.startsWith("-"))
    return `tutti has no command "${rest[0] ?? ""}"`;
  if (command.name() === "run") return roleProblem(rest);
  if (command.name() === "print") return printProblem(rest);
  return optionsProblem(command, rest);
}

/** `tutti config print` takes another command's flags. */
function printProblem(rest: readonly string[]): string | undefined {
  const words = rest.filter((word) => word !== "--json");
  return tuttiProblem(words[0] === "up" || words[0] === "run" ? words : ["up", ...words]);
}

function optionsProblem(command: ReturnType<typeof createProgram>, rest: string[]): string | undefined {
  command.configureOutput({ writeErr: () => undefined });
  try {
    const { operands, unknown } = command.parseOptions(rest);
    if (unknown.length > 0) return `tutti ${command.name()} has no ${unknown[0]}`;
    const { registeredArguments: wanted } = command;
    const isVariadic = wanted.some((one) => one.variadic);
    if (operands.length < wanted.filter((one) => one.required).length)
      return `tutti ${command.name()} needs more words`;
    if (operands.length > wanted.length && !isVariadic) return `tutti ${command.name()} takes fewer words`;
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

function roleProblem([list = "", ...flags]: readonly string[]): string | undefined {
  const hosted = list === "node" ? NODE_ROLES : list.split(",");
  const role = hosted.find((one) => !isRole(one)) ?? hosted[0]!;
  if (!isRole(role) && !role.startsWith("<")) return `there is no role "${role}"`;
  const names = new Set(
    [FILE_OPTION, ...(isRole(role) ? flagsOf(hosted.filter(isRole)) : FLAGS)].map(({ name }) => `--${name}`),
  );
  const unknown = flags.find((flag) => flag.startsWith("--") && !names.has(flag.split("=")[0]!));
  return unknown === undefined ? undefined : `a ${role} has no ${unknown}`;
}
