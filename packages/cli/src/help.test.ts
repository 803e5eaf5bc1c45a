/** Tests of `--help` for every command, and of the errors for mistyped commands and options. */
import { spawnSync } from "node:child_process";
import type { Command } from "commander";
import { expect, test, vi } from "vitest";
import { commandLine } from "./command-line.ts";
import { exampleLines } from "./examples.ts";
import { createProgram } from "./program.ts";

const pathOf = (command: Command): string =>
  command.parent === null ? "" : `${pathOf(command.parent)} ${command.name()}`.trim();
const all = (command: Command): Command[] => command.commands.flatMap((child) => [child, ...all(child)]);

function helpOf(path: string): string {
  const program = createProgram();
  let text = "";
  const command = path.split(" ").reduce((at, name) => at.commands.find((child) => child.name() === name)!, program);
  for (let at: Command | null = command; at !== null; at = at.parent)
    at.configureOutput({ writeOut: (part) => (text += part) });
  command.outputHelp();
  return text;
}

/** Runs a command line in this process. */
async function tutti(...args: string[]) {
  const said = { stdout: "", stderr: "" };
  const listening = (["stdout", "stderr"] as const).map((name) =>
    vi.spyOn(process[name], "write").mockImplementation((text) => ((said[name] += String(text)), true)),
  );
  try {
    await commandLine(args);
    return { ...said, status: process.exitCode };
  } finally {
    for (const one of listening) one.mockRestore();
    process.exitCode = undefined;
  }
}

test.for(all(createProgram()).map(pathOf))("`tutti %s --help` has an example of it that parses", async (path) => {
  const examples = exampleLines(helpOf(path));
  const own = examples.filter((words) => words.join(" ").startsWith(path));
  expect(own, `add an example of \`tutti ${path}\` to examples.ts`).not.toEqual([]);
  for (const words of examples) {
    const program = createProgram();
    const called: string[] = [];
    for (const command of all(program)) {
      command.configureOutput({ writeErr: (text) => void called.push(text) });
      command.action(() => void called.push(pathOf(command)));
    }
    await program.parseAsync(words, { from: "user" }).catch((error: Error) => called.push(error.message));
    const [called_] = called;
    expect([words.join(" "), called.length]).toEqual([words.join(" "), 1]);
    expect(words.join(" ").startsWith(called_!), `${words.join(" ")}: ${called_}`).toBe(true);
  }
});

test("who mistypes a command or an option is told the nearest one, with exit code 2", async () => {
  for (const [args, nearest] of [
    [["statsu"], "status"],
    [["plan", "pakc"], "pack"],
    [["up", "--excutors", "2"], "--executors"],
    [["run", "exectuor"], "executor"],
  ] as const) {
    const { status, stdout, stderr } = await tutti(...args);
    expect([status, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(new RegExp(`[Dd]id you mean "?${nearest}`));
  }
});

test.for([
  ["run", "--help"],
  ["run", "-h"],
])("`tutti %s %s` is the help of the command, as of any other", async (args) => {
  const { status, stdout, stderr } = await tutti(...args);
  expect([status ?? 0, stderr]).toEqual([0, ""]);
  expect(stdout).toMatch(/^Usage: tutti run <role>[^]*run a role in the foreground/);
});

test("with --json a mistake is told in JSON on stdout, with exit code 2", async () => {
  for (const [args, text] of [
    [["plan", "--json"], "which command of it? --help lists them"],
    [["split", "executor-0", "half", "--json"], "half: a whole number of percent, from 1 to 100"],
    [["status", "--bogus", "--json"], "unknown option '--bogus'"],
    [["infer", "--json"], "missing required argument 'model'"],
    [["infer", "mlp", "--seed", "x", "--json"], "--seed x: a whole number from 0 to 4294967295"],
  ] as const) {
    const { status, stdout } = await tutti(...args);
    expect([status, JSON.parse(stdout)]).toEqual([2, { error: text, code: "TUTTI_COMMAND", retryable: false }]);
  }
});

test("nothing that goes to a file or a pipe has colours in it", () => {
  const module = new URL("command-line.ts", import.meta.url).href;
  const lines = [["--help"], ["doctor", "--help"], ["statsu"], ["models", "--nats", "nats://127.0.0.1:1"]];
  const script = `
    import { commandLine } from ${JSON.stringify(module)};
    for (const args of ${JSON.stringify(lines)}) await commandLine(args);`;
  const env = { ...process.env, FORCE_COLOR: undefined };
  const child = spawnSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8", env });
  expect(child.stdout + child.stderr).toMatch(/Serves DNN inference[^]*Did you mean status[^]*no NATS server answers/);
  expect(child.stdout + child.stderr).not.toMatch(/\u001b/);
});
