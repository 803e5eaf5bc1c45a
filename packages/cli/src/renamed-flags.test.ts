import { expect, test } from "vitest";
import { createProgram } from "./program.ts";
import { withCurrentNames } from "@tutti/host";
import { parseRoleOptions } from "@tutti/host/role";

test("a former name of a flag is its current one, with its value beside it or behind an equals sign", () => {
  expect(withCurrentNames(["up", "--rehearsal", "4s"])).toEqual(["up", "--warmup", "4s"]);
  expect(withCurrentNames(["--repository-token=a.txt"])).toEqual(["--admin-token=a.txt"]);
  expect(withCurrentNames(["--rehearsal=0", "--rehearsals", "rehearsal"])).toEqual([
    "--warmup=0",
    "--rehearsals",
    "rehearsal",
  ]);
  expect(withCurrentNames(["--rehearsal", "--", "--rehearsal"])).toEqual(["--warmup", "--", "--rehearsal"]);
});

test("both names mean the same to a role, and what is renamed is a flag that exists", () => {
  const former = parseRoleOptions(["ingress"], ["--rehearsal", "2s"]);
  expect(former).toEqual(parseRoleOptions(["ingress"], ["--warmup", "2s"]));
  expect(former.warmup).toBe(2_000_000);
  const up = createProgram().commands.find((command) => command.name() === "up");
  expect(up?.options.map(({ long }) => long)).toContain("--warmup");
});
