import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { expect, test } from "vitest";
import { processLives } from "./process-lives.ts";

const NAMED = `process.title = "a) b (c"; process.send("up"); process.on("disconnect", () => process.exit(0));`;

test("a process lives until it is killed, also one whose name has brackets and blanks", async (context) => {
  if (!existsSync("/proc/self/stat")) context.skip("the kernel has no /proc");
  const child = spawn(process.execPath, ["-e", NAMED], { stdio: ["ignore", "ignore", "ignore", "ipc"] });
  await once(child, "message");
  expect([processLives(process.pid), processLives(child.pid!)]).toEqual([true, true]);
  child.kill("SIGKILL");
  await once(child, "exit");
  expect(processLives(child.pid!)).toBe(false);
});
