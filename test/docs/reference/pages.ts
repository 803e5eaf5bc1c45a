/** The generated files of the documentation, by their names in docs/reference. */
import { cliReference } from "./cli-reference.ts";
import { configurationReference } from "./configuration-reference.ts";
import { errorsReference } from "./errors-reference.ts";
import { metricsReference } from "./metrics-reference.ts";
import { subjectsReference } from "./subjects-reference.ts";

const NOTE = "<!-- Generated from the code by `npm run docs`: change it there. -->";
const page = (text: string): string => `${NOTE}\n\n${text}\n`;

export const referencePages = (): Readonly<Record<string, string>> => ({
  "cli.md": page(cliReference()),
  "configuration.md": page(configurationReference()),
  "errors.md": page(errorsReference()),
  "metrics.md": page(metricsReference()),
  "subjects.md": page(subjectsReference()),
});
