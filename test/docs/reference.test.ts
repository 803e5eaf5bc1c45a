/** docs/reference is generated: its files must equal the output of the current code. */
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { CONFIG_SCHEMA, configSchema } from "@tutti/cli/config-schema";
import { expect, test } from "vitest";
import { ENVIRONMENT, environmentOfSources } from "./reference/configuration-reference.ts";
import { CHART_SCHEMA, chartSchemaText } from "./reference/chart-schema.ts";
import { ROOT } from "./reference/code-comments.ts";
import { referencePages } from "./reference/pages.ts";

const folder = join(ROOT, "docs/reference");
const pages = referencePages();

test.each(Object.keys(pages))("docs/reference/%s is what `npm run docs` would write now", (name) => {
  expect(readFileSync(join(folder, name), "utf8"), "stale: `npm run docs` writes it anew").toBe(pages[name]);
});

test("docs/reference holds generated pages only, and the documentation's table of contents names each", () => {
  expect(readdirSync(folder).toSorted()).toEqual(Object.keys(pages).toSorted());
  const contents = readFileSync(join(ROOT, "docs/README.md"), "utf8");
  for (const name of Object.keys(pages)) expect(contents).toContain(`(reference/${name})`);
});

test("the schema of tutti.yaml is what `npm run docs` would write now", () => {
  expect(readFileSync(CONFIG_SCHEMA, "utf8")).toBe(`${JSON.stringify(configSchema(), null, 2)}\n`);
});

test("the schema of the chart's values is what `npm run docs` would write now", () => {
  expect(readFileSync(CHART_SCHEMA, "utf8")).toBe(chartSchemaText());
});

test("every variable that is read from the environment is documented, and no other", () => {
  const setOnly = ["TUTTI_PROCESS"]; // set for a process that is started, and read by people
  const documented = Object.keys(ENVIRONMENT).filter((name) => !setOnly.includes(name));
  expect(documented.toSorted()).toEqual(environmentOfSources().filter((name) => !setOnly.includes(name)));
});

test("no cell of a reference is without its text, and every row of errors, keys and metrics says what it is", () => {
  for (const name of ["errors.md", "metrics.md"]) {
    const rows = pages[name]!.split("\n").filter((line) => line.startsWith("| `"));
    expect(rows.length).toBeGreaterThan(10);
    for (const row of rows) expect(row.split(" | ").at(-1), row).not.toBe(" |");
  }
});

test("no paragraph of a reference is longer than 400 characters", () => {
  const paragraphs = Object.values(pages).flatMap((page) => page.split("\n").filter((line) => /^[^|<#\s-]/.test(line)));
  expect(paragraphs.length).toBeGreaterThan(10);
  for (const paragraph of paragraphs) expect(paragraph.length, paragraph).toBeLessThanOrEqual(400);
});
