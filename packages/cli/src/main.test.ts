import { spawn } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";

test("a reader that has read enough ends a command quietly, as `tutti … | head` does", async () => {
  const child = spawn(process.execPath, [join(import.meta.dirname, "main.ts"), "completion", "bash"], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  child.stdout.destroy();
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (said += text));
  const code = await new Promise((resolve) => child.on("close", resolve));
  expect([code, said]).toEqual([0, ""]);
});
