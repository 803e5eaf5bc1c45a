import type { CommandShape, Value } from "./command-shapes.ts";

export function fishCompletion(shapes: readonly CommandShape[]): string {
  return `# Completion of tutti's command line for fish, made by \`tutti completion fish\`.
function __tutti_at --description 'Is this command being typed?'
  set -l where ''
  set -l skip 0
  for word in (commandline -opc)[2..-1]
    if test $skip = 1
      set skip 0
      continue
    end
    switch "$where $word"
${shapes.flatMap(({ path, commands }) => commands.map(({ name }) => `      case ${quote(`${path} ${name}`)}\n        set where ${quote(`${path} ${name}`.trim())}`)).join("\n")}
      case ${valueFlags(shapes).map(quote).join(" ")}
        set skip 1
    end
  end
  test "$where" = "$argv[1]"
end
complete -c tutti -f
${shapes.flatMap(linesOf).join("\n")}
`;
}

const quote = (text: string): string => `'${text.replaceAll("\\", String.raw`\\`).replaceAll("'", String.raw`\'`)}'`;

const valueFlags = (shapes: readonly CommandShape[]): string[] =>
  shapes.flatMap(({ path, options }) =>
    options.flatMap(({ flag, value }) => (value === undefined ? [] : [`${path} ${flag}`])),
  );

function linesOf({ path, commands, options, argument }: CommandShape): string[] {
  const at = `complete -c tutti -n ${quote(`__tutti_at ${quote(path)}`)}`;
  return [
    ...commands.map(({ name, text }) => `${at} -a ${quote(name)} -d ${quote(text)}`),
    ...options.map(({ flag, text, value }) => `${at} -l ${flag.slice(2)} -d ${quote(text)}${followOf(value)}`),
    ...(argument === undefined ? [] : [`${at}${placeOf(argument)}`]),
  ];
}

function followOf(value: Value | undefined): string {
  if (value === undefined) return "";
  if (value.kind === "choice") return ` -x -a ${quote(value.choices.join(" "))}`;
  return { file: " -r -F", folder: " -x -a '(__fish_complete_directories)'", text: " -x" }[value.kind];
}
function placeOf(value: Value): string {
  if (value.kind === "choice") return ` -a ${quote(value.choices.join(" "))}`;
  return { file: " -F", folder: " -a '(__fish_complete_directories)'", text: "" }[value.kind];
}
