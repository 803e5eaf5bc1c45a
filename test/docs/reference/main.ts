/** `npm run docs`: writes docs/reference anew. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./code-comments.ts";
import { referencePages } from "./pages.ts";

const folder = join(ROOT, "docs/reference");
mkdirSync(folder, { recursive: true });
for (const [name, text] of Object.entries(referencePages())) writeFileSync(join(folder, name), text);
process.stdout.write(`docs/reference: ${Object.keys(referencePages()).join(", ")}\n`);
