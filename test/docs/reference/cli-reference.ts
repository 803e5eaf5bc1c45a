/** docs/reference/cli.md: every command's own description. */
import { EXIT } from "@tutti/admin";
import { createProgram } from "@tutti/cli/program";
import { FILE_OPTION, FLAGS, flagsOf, optionLines } from "@tutti/host";
import { ROLES } from "@tutti/protocol";
import { propertiesOf, table } from "./code-comments.ts";

type Command = ReturnType<typeof createProgram>;

export interface DocumentedCommand {
  /** `tutti plan pack`. */
  readonly name: string;
  readonly command: Command;
}

/** Commands with an action, in the order of `tutti --help`. */
export function commandsOf(program: Command = createProgram(), before = ""): DocumentedCommand[] {
  const name = `${before}${program.name()}`;
  if (program.commands.length === 0) return [{ name, command: program }];
  const own = before !== "" && program.options.length > 0 ? [{ name, command: program }] : [];
  const below = program.commands.filter((one) => one.name() !== "help").flatMap((one) => commandsOf(one, `${name} `));
  return [...own, ...below];
}

export function cliReference(): string {
  const commands = commandsOf();
  const sections = commands.map(({ name, command }) => {
    const roles = name === "tutti run" ? `\n\n${rolesReference()}` : "";
    return `## ${name}\n\n\`\`\`text\n${helpOf(command)}\n\`\`\`${roles}`;
  });
  const meanings = new Map(
    propertiesOf("packages/admin/src/failure.ts", "EXIT").map(({ name, comment }) => [name, comment]),
  );
  const codes = Object.entries(EXIT).map(([name, code]) => [
    String(code),
    meanings.get(name) || "Done, as it was asked for.",
  ]);
  return [
    "# Commands",
    "`bin/tutti` in the repository; `npm start` is `tutti up`. Options of `tutti up` and `tutti run` also come from the environment and a file ([configuration](configuration.md#processes-tuttiyaml)). Commands that speak to a cluster find it by `--nats`, else `TUTTI_NATS`, else the one that `tutti up` started last on this machine. `--json` prints what a program may read.",
    "## Exit codes",
    table(["code", "means"], codes),
    ...sections,
  ].join("\n\n");
}

const WIDTH = 120;

export function helpOf(command: Command): string {
  let text = "";
  command.configureOutput({ writeOut: (part) => void (text += part), getOutHelpWidth: () => WIDTH });
  command.outputHelp();
  return text.trimEnd();
}

function rolesReference(): string {
  const common = FLAGS.filter(({ roles }) => roles.length === ROLES.length);
  const own = ROLES.map((role) => {
    const flags = flagsOf(role).filter((flag) => !common.includes(flag));
    return flags.length === 0 ? `${role}: nothing of its own` : `${role}:\n${optionLines(flags)}`;
  });
  const shared = optionLines([FILE_OPTION, ...common]);
  return `Flags of every role, and those of each:\n\n\`\`\`text\nevery role:\n${shared}\n\n${own.join("\n\n")}\n\`\`\``;
}
