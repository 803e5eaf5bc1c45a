/** `npm run docs`: writes docs/reference and the schema of tutti.yaml anew. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CONFIG_SCHEMA, configSchema } from "@tutti/cli/config-schema";
import { ROOT } from "./code-comments.ts";
import { referencePages } from "./pages.ts";

const folder = join(ROOT, "docs/reference");
mkdirSync(folder, { recursive: true });
for (const [name, text] of Object.entries(referencePages())) writeFileSync(join(folder, name), text);
writeFileSync(CONFIG_SCHEMA, `${JSON.stringify(configSchema(), null, 2)}\n`);
process.stdout.write(`docs/reference: ${Object.keys(referencePages()).join(", ")}\n`);
