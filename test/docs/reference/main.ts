/** `npm run docs`: writes docs/reference and the schemas of tutti.yaml and of the chart's values anew. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CONFIG_SCHEMA, configSchema } from "@tutti/cli/config-schema";
import { CHART_SCHEMA, chartSchemaText } from "./chart-schema.ts";
import { ROOT } from "./code-comments.ts";
import { referencePages } from "./pages.ts";

const folder = join(ROOT, "docs/reference");
mkdirSync(folder, { recursive: true });
for (const [name, text] of Object.entries(referencePages())) writeFileSync(join(folder, name), text);
writeFileSync(CONFIG_SCHEMA, `${JSON.stringify(configSchema(), null, 2)}\n`);
writeFileSync(CHART_SCHEMA, chartSchemaText());
process.stdout.write(`docs/reference: ${Object.keys(referencePages()).join(", ")}\n`);
