/** The shapes of all commands, read from the program itself, so that completion can't drift from the commands. */
import { ROLES } from "@tutti/protocol";
import type { Command, Option } from "commander";
import { FILE_OPTION, FLAGS, choicesIn, flagsOf } from "@tutti/host";

/** The value of an option or an argument. */
export type Value =
  { readonly kind: "file" | "folder" | "text" } | { readonly kind: "choice"; readonly choices: readonly string[] };

export interface OptionShape {
  /** `--nats`. */
  readonly flag: string;
  readonly text: string;
  /** Undefined: the option takes no value. */
  readonly value: Value | undefined;
}
export interface CommandShape {
  /** Without `tutti`: `plan pack`; "" for `tutti` itself. */
  readonly path: string;
  readonly commands: readonly { readonly name: string; readonly text: string }[];
  readonly options: readonly OptionShape[];
  /** The first argument's value; undefined: it takes none, or the name of a command. */
  readonly argument: Value | undefined;
}

/** The shapes of `tutti` itself first, and of every command before its own commands. */
export function commandShapes(program: Command): CommandShape[] {
  return [shapeOf(program, []), ...below(program, [])];
}

function below(command: Command, path: readonly string[]): CommandShape[] {
  return command.commands.flatMap((child) => {
    const its = [...path, child.name()];
    if (its.join(" ") === "run") return roleShapes(child);
    return [shapeOf(child, its), ...below(child, its)];
  });
}

function shapeOf(command: Command, path: readonly string[]): CommandShape {
  const help = { flag: "--help", text: "display help", value: undefined };
  const [argument] = command.registeredArguments;
  return {
    path: path.join(" "),
    commands: command.commands.map((child) => ({ name: child.name(), text: summaryOf(child) })),
    options: [...command.options.filter(({ hidden }) => !hidden).map(optionShape), help],
    argument: argument === undefined ? undefined : valueOf(argument.name(), argument.argChoices),
  };
}

const summaryOf = (command: Command): string => command.summary() || command.description();

const optionShape = (option: Option): OptionShape => ({
  flag: option.long ?? option.flags,
  text: option.description,
  value: takesValue(option)
    ? valueOf(/[<[](.+)[>\]]$/.exec(option.flags)?.[1] ?? "", option.argChoices ?? choicesOf(option.long))
    : undefined,
});
const takesValue = (option: Option): boolean => option.required || option.optional;

/** A flag with fixed choices for a role has the same choices in every command. */
function choicesOf(flag: string | undefined): readonly string[] | undefined {
  const value = FLAGS.find(({ name }) => `--${name}` === flag)?.value;
  return value?.includes("|") === true ? choicesIn(value) : undefined;
}

/** The shapes of `tutti run`: its commands are the roles, whose flags it passes on. */
function roleShapes(run: Command): CommandShape[] {
  const shape = shapeOf(run, ["run"]);
  const roles = ROLES.map((name) => ({ name, text: `run one ${name} in the foreground` }));
  return [
    { ...shape, commands: roles, argument: undefined },
    ...ROLES.map((role): CommandShape => {
      const options = [FILE_OPTION, ...flagsOf(role)].map(({ name, text, value }) => ({
        flag: `--${name}`,
        text,
        value: value === undefined ? undefined : valueOf(value, choicesOf(`--${name}`)),
      }));
      const help = { flag: "--help", text: "list its flags", value: undefined };
      return { path: `run ${role}`, commands: [], options: [...options, help], argument: undefined };
    }),
  ];
}

/** Derives the kind of a value from its placeholder: `<file>`, `<scenario.yaml>`, `<folder>`. */
function valueOf(placeholder: string, choices: readonly string[] | undefined): Value {
  if (choices !== undefined && choices.length > 0) return { kind: "choice", choices };
  if (/file|path|\.(yaml|jsonl?|html)\b/.test(placeholder)) return { kind: "file" };
  return { kind: /folder/.test(placeholder) ? "folder" : "text" };
}
