/** Writes the dashboard and the rules beside this file; with --check it only reports whether they equal the code's. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { format } from "prettier";
import { stringify } from "yaml";
import { dashboard } from "./dashboard.ts";
import { rules, rulesTest } from "./rules.ts";

const RULES = "tutti-rules.yaml";
const yaml = (value: object): string =>
  `# Made by infra/dashboards/main.ts from rules.ts.\n${stringify(value, { lineWidth: 0, aliasDuplicateObjects: false })}`;

const FILES: Readonly<Record<string, string>> = {
  "tutti-overview.json": await format(JSON.stringify(dashboard()), { parser: "json", printWidth: 120 }),
  [RULES]: yaml(rules()),
  "tutti-rules.test.yaml": yaml(rulesTest(RULES)),
};

const read = (path: string): string => {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
};

for (const [name, text] of Object.entries(FILES)) {
  const path = join(import.meta.dirname, name);
  if (read(path) === text) continue;
  if (process.argv.includes("--check")) {
    process.stderr.write(
      `infra/dashboards/${name} is not what the code makes: run \`node infra/dashboards/main.ts\`\n`,
    );
    process.exitCode = 1;
  } else {
    writeFileSync(path, text);
    process.stdout.write(`wrote infra/dashboards/${name}\n`);
  }
}
