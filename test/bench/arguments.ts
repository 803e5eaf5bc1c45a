import { type ParseArgsOptionsConfig, parseArgs } from "node:util";

/** The values that `readArguments` returns for `options`, as typed by Node's `parseArgs`. */
type Values<Options extends ParseArgsOptionsConfig> = ReturnType<
  typeof parseArgs<{ readonly options: Options }>
>["values"];

/**
 * Reads the options of a benchmark. `--help` prints `usage` and exits with 0; an option that can't be read prints one
 * line and `usage`, and exits with 2.
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
