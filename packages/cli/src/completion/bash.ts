import type { CommandShape, Value } from "./command-shapes.ts";

/** For bash 3.2 (macOS) and newer. */
export function bashCompletion(shapes: readonly CommandShape[]): string {
  return `# Completion of tutti's command line for bash, made by \`tutti completion bash\`.
_tutti() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" prev="\${COMP_WORDS[COMP_CWORD - 1]}" where="" word i
  COMPREPLY=()
  # Which command is being typed: options and what follows them are passed over.
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="\${COMP_WORDS[i]}"
    case "$where $word" in
${shapes.flatMap(({ path, commands }) => commands.map(({ name }) => `      ${quote(`${path} ${name}`)}) where=${quote(`${path} ${name}`.trim())} ;;`)).join("\n")}
${valueCase(shapes)}
    esac
  done
  case "$where $prev" in
${shapes.flatMap(followCases).join("\n")}
  esac
  local options="" commands="" kind=""
  case "$where" in
${shapes.map(placeCase).join("\n")}
  esac
  if [[ "$cur" == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$cur"))
  elif [[ -n "$commands" ]]; then
    COMPREPLY=($(compgen -W "$commands" -- "$cur"))
  else
    _tutti_value "$kind" "$cur"
  fi
}
_tutti_value() {
  local IFS=$'\\n'
  case "$1" in
    file) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$2")) ;;
    folder) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- "$2")) ;;
    "choice "*) IFS=' '; COMPREPLY=($(compgen -W "\${1#choice }" -- "$2")) ;;
  esac
}
complete -F _tutti tutti
`;
}

const quote = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;
const kindOf = (value: Value): string => (value.kind === "choice" ? `choice ${value.choices.join(" ")}` : value.kind);

/** Cases that skip options' values, so that `--cluster plan` names no command. */
function valueCase(shapes: readonly CommandShape[]): string {
  const flags = shapes.flatMap(({ path, options }) =>
    options.filter(({ value }) => value !== undefined).map(({ flag }) => quote(`${path} ${flag}`)),
  );
  return `      ${flags.join(" | ")}) i=$((i + 1)) ;;`;
}

const followCases = ({ path, options }: CommandShape): string[] =>
  options.flatMap(({ flag, value }) =>
    value === undefined
      ? []
      : [`    ${quote(`${path} ${flag}`)}) _tutti_value ${quote(kindOf(value))} "$cur"; return ;;`],
  );

function placeCase({ path, options, commands, argument }: CommandShape): string {
  const [flags, names] = [options.map(({ flag }) => flag).join(" "), commands.map(({ name }) => name).join(" ")];
  const kind = argument === undefined ? "" : kindOf(argument);
  return `    ${quote(path)}) options=${quote(flags)} commands=${quote(names)} kind=${quote(kind)} ;;`;
}
