import { type ParseArgsOptionsConfig, parseArgs } from "node:util";

/** What `readArguments` gives for `options`, as `parseArgs` of Node has it. */
type Values<Options extends ParseArgsOptionsConfig> = ReturnType<
  typeof parseArgs<{ readonly options: Options }>
>["values"];

/**
 * The options of a benchmark. Where `--help` is asked for, `usage` is all that comes of the process (exit code 0); what
 * can't be read is said in a line, with `usage` (exit code 2).
 *
 * @param options - one whose default is a number takes numbers only
 */
export function readArguments<const Options extends ParseArgsOptionsConfig>(
  usage: string,
  options: Options,
): Values<Options> {
  try {
    const { help, ...values } = parseArgs({ options: { ...options, help: { type: "boolean", default: false } } })
      .values as Values<Options> & { readonly help: boolean };
    if (help) end(0, usage);
    for (const [name, value] of Object.entries(values)) {
      const initial = options[name]?.default;
      if (isNumber(initial) && !isNumber(value)) throw new Error(`--${name} takes a number, not "${String(value)}"`);
    }
    return values as unknown as Values<Options>;
  } catch (error) {
    end(2, `${(error as Error).message}\n\n${usage}`);
  }
}

const isNumber = (value: unknown): boolean => typeof value === "string" && /^\d+(\.\d+)?$/.test(value);

function end(code: number, text: string): never {
  (code === 0 ? process.stdout : process.stderr).write(text);
  process.exit(code);
}
