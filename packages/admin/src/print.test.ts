import { TuttiError } from "@tutti/protocol";
import { afterEach, expect, test, vi } from "vitest";
import { CommandError, report } from "./failure.ts";
import { note, print } from "./print.ts";

const EVIL = "a\u001b[2J\u0007\u009b31m\u202eb\r";
const SHOWN = "a\\u001b[2J\\u0007\\u009b31m\\u202eb\\u000d";

function written(stream: NodeJS.WriteStream): string[] {
  const texts: string[] = [];
  vi.spyOn(stream, "write").mockImplementation((text) => texts.push(String(text)) > 0);
  return texts;
}
afterEach(() => {
  vi.restoreAllMocks();
  process.exitCode = 0;
});

test("what commands write doesn't act on a terminal, and its lines stay lines", () => {
  const [out, err] = [written(process.stdout), written(process.stderr)];
  print(`one ${EVIL}\ntwo`);
  note(EVIL);
  expect(out.join("")).toBe(`one ${SHOWN}\ntwo\n`);
  expect(err.join("")).toBe(`${SHOWN}\n`);
});

test("JSON stays the same value, although it is shown in printable characters", () => {
  const out = written(process.stdout);
  const value = { id: `${EVIL}\n\t\u007f\u2028"\\`, [EVIL]: ["größer"] };
  print(JSON.stringify(value));
  expect(out.join("")).not.toMatch(/[\p{Cc}\u2028\u202e](?!$)/u);
  expect(JSON.parse(out.join(""))).toEqual(value);
});

test("of an error, words of others are shown, whoever made it", () => {
  const err = written(process.stderr);
  report(new TuttiError("TUTTI_NOT_FOUND", EVIL), false);
  report(new CommandError(EVIL), false);
  expect(err.join("")).toBe(`tutti: ${SHOWN} (TUTTI_NOT_FOUND)\ntutti: ${SHOWN}\n`);
});
