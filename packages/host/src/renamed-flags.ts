/** Flags under their former names, which are accepted for one release (CHANGELOG.md). */
const RENAMED: ReadonlyMap<string, string> = new Map([
  ["--rehearsal", "--warmup"],
  ["--repository-token", "--admin-token"],
]);

/** @param argv - `--flag value` and `--flag=value` alike; words behind `--` are no flags */
export const withCurrentNames = (argv: readonly string[]): string[] =>
  argv.map((word, i) => {
    if (argv.indexOf("--") !== -1 && i > argv.indexOf("--")) return word;
    const [flag, ...value] = word.split("=");
    const current = RENAMED.get(flag!);
    return current === undefined ? word : [current, ...value].join("=");
  });
