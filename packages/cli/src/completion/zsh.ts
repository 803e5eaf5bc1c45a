import type { CommandShape, Value } from "./command-shapes.ts";

export function zshCompletion(shapes: readonly CommandShape[]): string {
  return `#compdef tutti
# Completion of tutti's command line for zsh, made by \`tutti completion zsh\`.
_tutti() {
  local where="" word
  local -i i
  local -a options commands
  # Which command is being typed: options and what follows them are passed over.
  for ((i = 2; i < CURRENT; i++)); do
    word="\${words[i]}"
    case "$where $word" in
${shapes.flatMap(({ path, commands }) => commands.map(({ name }) => `      ${quote(`${path} ${name}`)}) where=${quote(`${path} ${name}`.trim())} ;;`)).join("\n")}
      ${valueFlags(shapes).map(quote).join(" | ")}) ((i++)) ;;
    esac
  done
  case "$where \${words[CURRENT - 1]}" in
${shapes.flatMap(followCases).join("\n")}
  esac
  case "$where" in
${shapes.map(placeCase).join("\n")}
  esac
}
if [[ "\${funcstack[1]}" == _tutti ]]; then _tutti "$@"; else compdef _tutti tutti; fi
`;
}

const quote = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;
/** A name with its description: `:` separates the two. */
const described = (name: string, text: string): string => quote(`${name}:${text.replaceAll(":", String.raw`\:`)}`);

const valueFlags = (shapes: readonly CommandShape[]): string[] =>
  shapes.flatMap(({ path, options }) =>
    options.flatMap(({ flag, value }) => (value === undefined ? [] : [`${path} ${flag}`])),
  );

function actionOf(value: Value): string {
  if (value.kind === "choice") return `compadd -- ${value.choices.map(quote).join(" ")}`;
  return { file: "_files", folder: "_files -/", text: "_message value" }[value.kind];
}

const followCases = ({ path, options }: CommandShape): string[] =>
  options.flatMap(({ flag, value }) =>
    value === undefined ? [] : [`    ${quote(`${path} ${flag}`)}) ${actionOf(value)}; return ;;`],
  );

function placeCase({ path, options, commands, argument }: CommandShape): string {
  const flags = options.map(({ flag, text }) => described(flag, text)).join(" ");
  const names = commands.map(({ name, text }) => described(name, text)).join(" ");
  const place = commands.length > 0 ? "_describe command commands" : argument === undefined ? ":" : actionOf(argument);
  return `    ${quote(path)})
      options=(${flags})
      commands=(${names})
      if [[ "$PREFIX" == -* ]]; then _describe -o option options; else ${place}; fi ;;`;
}
