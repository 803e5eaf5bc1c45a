import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

/** Prints the niceness of V8's threads and of the main one (`man 5 proc_pid_stat`, field 19). */
const SHOWN = `
  import { readFileSync, readdirSync } from "node:fs";
  import { helpersGiveWay } from ${JSON.stringify(join(import.meta.dirname, "helper-threads.ts"))};
  const count = helpersGiveWay();
  const nice = (thread) => {
    const stat = readFileSync(\`/proc/self/task/\${thread}/stat\`, "latin1");
    return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[16]);
  };
  const named = readdirSync("/proc/self/task").map((thread) => [readFileSync(\`/proc/self/task/\${thread}/comm\`, "latin1").trim(), nice(thread)]);
  const helpers = named.filter(([name]) => name === "V8Worker").map(([, nice]) => nice);
  console.log(JSON.stringify({ count, helpers, own: nice(process.pid) }));
`;

test("V8's threads give way to the one that decides, which stays as it is", (context) => {
  if (!existsSync("/proc/self/task")) context.skip("the kernel does not show threads");
  const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", SHOWN], { encoding: "utf8" });
  expect(stderr).toBe("");
  const { count, helpers, own } = JSON.parse(stdout) as { count: number; helpers: number[]; own: number };
  if (helpers.length === 0) context.skip("this Node does not name its threads");
  expect(count).toBeGreaterThan(0);
  expect(helpers).toEqual(Array.from({ length: count }, () => Math.min(19, own + 10)));
});
