import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";

/** The variable, as a process that loads the engine passes it on. */
function inEnvironment(before: Readonly<Record<string, string>>): string {
  const index = new URL("./index.ts", import.meta.url).href;
  const script = `await import(${JSON.stringify(index)}); process.stdout.write(process.env.ORT_DISABLE_TELEMETRY ?? "");`;
  const { ORT_DISABLE_TELEMETRY: _, ...env } = process.env;
  const args = ["--input-type=module", "--eval", script];
  return execFileSync(process.execPath, args, { encoding: "utf8", env: { ...env, ...before } });
}

test("onnxruntime is loaded with its telemetry off, unless the environment wants it", () => {
  expect(inEnvironment({})).toBe("1");
  expect(inEnvironment({ ORT_DISABLE_TELEMETRY: "0" })).toBe("0");
});
