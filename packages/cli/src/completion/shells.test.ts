/**
 * Tests of completions that a real zsh and a real fish offer at a user's Tab. They are skipped if the shell isn't
 * installed; bash is in completion.test.ts.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ROLES } from "@tutti/protocol";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createProgram } from "../program.ts";
import { commandShapes } from "./command-shapes.ts";
import { fishCompletion } from "./fish.ts";
import { zshCompletion } from "./zsh.ts";

const shapes = commandShapes(createProgram());
let [folder, scripts] = ["", ""];
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "tutti-completion-"));
  scripts = mkdtempSync(join(tmpdir(), "tutti-completion-scripts-"));
  writeFileSync(join(folder, "a scan.png"), "");
  mkdirSync(join(folder, "a folder"));
});
afterAll(() => [folder, scripts].forEach((path) => rmSync(path, { recursive: true, force: true })));

/** Runs zsh in its own terminal, with the completion system set up by `compinit`. All matches go through `compadd`. */
const ZSH_INNER = `PROMPT=
autoload -Uz compinit; compinit -u -D
source $TUTTI_SCRIPT
zstyle ':completion:*' insert-tab false
compadd() {
  if [[ \${@[1,(i)(-|--)]} == *-(O|A|D)* ]]; then builtin compadd "$@"; return; fi
  local -a hits
  builtin compadd -A hits "$@"
  for hit in $hits; do print -r -- "$hit" >> $TUTTI_OUT; done
  builtin compadd "$@"
}
offer() {
  local line
  while IFS= read -r line; do
    BUFFER=$line CURSOR=$#line
    zle list-choices
    print -r -- --end-- >> $TUTTI_OUT
  done < $TUTTI_LINES
  exit
}
zle -N offer
bindkey '^X' offer
`;
const ZSH_OUTER = `zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "source $TUTTI_INNER"
zpty -w -n shell $'\\x18'
while zpty -r shell word; do :; done
`;
const FISH = `source $argv[1]
while read -l line
  complete -C "$line"
  echo --end--
end < $argv[2]
`;

function written(name: string, text: string): string {
  const path = join(scripts, name);
  writeFileSync(path, text);
  return path;
}

const SHELLS = {
  zsh(lines: string): string {
    const out = written("zsh-out", "");
    const env = {
      ...{ ...process.env, TUTTI_OUT: out, TUTTI_LINES: lines, TERM: "dumb" },
      TUTTI_SCRIPT: written("_tutti", zshCompletion(shapes)),
      TUTTI_INNER: written("inner.zsh", ZSH_INNER),
    };
    spawnSync("zsh", ["-f", written("outer.zsh", ZSH_OUTER)], { cwd: folder, env, timeout: 60_000 });
    return readFileSync(out, "utf8").replaceAll("\\ ", " ");
  },
  fish(lines: string): string {
    const args = ["--no-config", written("ask.fish", FISH), written("tutti.fish", fishCompletion(shapes)), lines];
    const env = { ...process.env, HOME: scripts };
    const { stdout } = spawnSync("fish", args, { cwd: folder, env, encoding: "utf8", timeout: 60_000 });
    // A tab separates the word from its description; a folder ends with a slash.
    return stdout.replaceAll(/\/?(\t.*)?$/gm, "");
  },
} as const;

/** Sorted, since shells use their own order, and may offer a word in two groups. */
function offers(shell: keyof typeof SHELLS, lines: readonly string[]): string[][] {
  const said = SHELLS[shell](written("lines", lines.map((line) => `${line}\n`).join("")));
  const answers = said.split("--end--\n").slice(0, -1);
  return answers.map((answer) => [...new Set(answer.split("\n").filter((word) => word !== ""))].toSorted());
}

const EXPECTED: readonly (readonly [line: string, offered: readonly string[]])[] = [
  ["tutti sta", ["status"]],
  ["tutti plan p", ["pack"]],
  ["tutti infer --input a", ["a folder", "a scan.png"]],
  ["tutti up --models ", ["a folder"]],
  ["tutti up --provider c", ["cpu", "cuda"]],
  ["tutti run ", [...ROLES].toSorted()],
  ["tutti run executor --eng", ["--engine"]],
  ["tutti run executor --data-plane ", ["nats", "tcp"]],
  ["tutti infer --app ", []],
  ["tutti completion ", ["bash", "fish", "zsh"]],
];

test.for(["zsh", "fish"] as const)(
  "a real %s offers commands, options, values and files where each belongs",
  (shell, ctx) => {
    if (spawnSync(shell, ["--version"]).status !== 0) return ctx.skip(`no ${shell} is here`);
    const commands = shapes.filter(({ commands: below }) => below.length > 0);
    const lines = commands.map(({ path }) => `tutti ${path} `.replace("  ", " "));
    const offered = offers(shell, [...EXPECTED.map(([line]) => line), ...lines]);
    expect(EXPECTED.map(([line], i) => [line, offered[i]])).toEqual(EXPECTED);
    for (const [i, { path, commands: below }] of commands.entries())
      expect([path, offered[EXPECTED.length + i]]).toEqual([path, below.map(({ name }) => name).toSorted()]);
  },
);
