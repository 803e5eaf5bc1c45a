/** The rules of infra/dashboards, read by Prometheus. */
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { promtool, runPromtool } from "../fixtures/promtool.ts";

const FOLDER = join(import.meta.dirname, "../../infra/dashboards");
const tool = await promtool();
beforeEach((context) => {
  if ("missing" in tool) context.skip(tool.missing);
});
const said = (...args: string[]): Promise<string> =>
  runPromtool((tool as { path: string }).path, args, { cwd: FOLDER });

test("Prometheus takes the rules", async () => {
  expect(await said("check", "rules", "tutti-rules.yaml")).toContain("SUCCESS: 19 rules found");
});

test("each alert fires when it should, and none when all is well", { timeout: 240_000 }, async () => {
  expect(await said("test", "rules", "tutti-rules.test.yaml")).toContain("SUCCESS");
});
