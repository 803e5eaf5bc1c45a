/** Upgrades a cluster of processes from a commit to this tree and back, under load (docs/upgrades.md). */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { ROOT } from "../tutti-up.ts";
import { copyRelease, lastRelease } from "./release-copy.ts";
import { rollingUpgrade } from "./rolling-upgrade.ts";

const { values } = parseArgs({ options: { from: { type: "string" } } });
const release = values.from === undefined ? lastRelease() : { commit: values.from, renamed: undefined };
if (typeof release === "string") throw new Error(release);
const folder = mkdtempSync(join(tmpdir(), "tutti-upgrade-"));
try {
  copyRelease(release, folder);
  const { loads, releases, stored } = await rollingUpgrade(folder, ROOT, (text) => console.log(text));
  console.log(`releases in the middle: ${releases.join(", ")}`);
  for (const [client, { asked, statuses }] of Object.entries(loads))
    console.log(`client of the release ${client}: ${asked} requests, ${JSON.stringify(statuses)}`);
  console.log(stored[0] === stored[1] ? `kept: ${stored[0]}` : `stored before: ${stored[0]}\nafter: ${stored[1]}`);
  const isWhole = Object.values(loads).every(({ asked, statuses }) => statuses["ok"] === asked);
  process.exitCode = isWhole && stored[0] === stored[1] ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
