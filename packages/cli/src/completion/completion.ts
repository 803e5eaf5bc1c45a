import type { Command } from "commander";
import { bashCompletion } from "./bash.ts";
import { commandShapes } from "./command-shapes.ts";
import { fishCompletion } from "./fish.ts";
import type { SHELLS } from "./program.ts";
import { zshCompletion } from "./zsh.ts";

const MADE_BY = { bash: bashCompletion, zsh: zshCompletion, fish: fishCompletion };

export function completion(shell: (typeof SHELLS)[number], program: Command): void {
  process.stdout.write(MADE_BY[shell](commandShapes(program)));
}
