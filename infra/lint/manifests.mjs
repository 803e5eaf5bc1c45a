/**
 * Completes every package's manifest. `npm start` and `npm test` work in its folder, and nx takes its targets from
 * infra/nx instead of those scripts. It is part of `npm run format`; test/boundaries reports when it is due.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "./project-graph.mjs";

const folders = ["packages", "services"].flatMap((kind) =>
  readdirSync(join(root, kind)).map((name) => `${kind}/${name}`),
);

for (const folder of [...folders, "test"]) {
  const file = join(root, folder, "package.json");
  if (!existsSync(file)) continue;
  const main = `node ${folder === "test" ? ".." : "../.."}/infra/setup/main.mjs`;
  const manifest = JSON.parse(readFileSync(file, "utf8"));
  const {
    name,
    version,
    private: isPrivate,
    description,
    license,
    type,
    exports,
    bin,
    scripts,
    nx,
    ...rest
  } = manifest;
  const complete = {
    ...{ name, version, private: isPrivate, description, license, type, exports, bin },
    scripts: {
      ...scripts,
      start: `${main} start`,
      test: folder === "test" ? `${main} test` : `${main} test unit ${folder}/`,
    },
    nx: { ...nx, includedScripts: [] },
    ...rest,
  };
  if (JSON.stringify(complete) !== JSON.stringify(manifest))
    writeFileSync(file, `${JSON.stringify(complete, null, 2)}\n`);
}
