/** The permissions in docs/security.md are those of `usersOf`. A failure prints the row that the docs should have. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { LOCAL_USER, type NatsUser, usersOf } from "@tutti/bus-nats";
import { expect, test } from "vitest";

const APP = "camera";

/**
 * Patterns as a cell. `$JS.…` and the flow control of its consumers are left out: reading the store needs them, and
 * they are the same for every user who may.
 */
function cellOf(patterns: readonly string[]): string {
  const shown = patterns
    .filter((pattern) => !pattern.startsWith("$JS."))
    .map((pattern) => pattern.replaceAll("tutti.v1.main.", "~.").replaceAll(APP, "<app>"))
    .map((pattern) => {
      const [subject = "", queue] = pattern.split(" ");
      return queue === undefined ? `\`${subject}\`` : `\`${subject}\` in the queue group \`${queue}\``;
    });
  return [
    ...shown,
    ...(patterns.some((pattern) => pattern.startsWith("$JS.API.STREAM.INFO")) ? ["reads the store"] : []),
  ].join(", ");
}

const rowOf = ({ name, publish, subscribe, neverSubscribe = [] }: NatsUser): string => {
  const never = neverSubscribe.length === 0 ? "" : "; in no queue group";
  return `| ${name.replace(APP, "<app>")} | ${cellOf(publish)} | ${cellOf(subscribe)}${never} |`;
};

test("the table of users says what the servers' configuration allows", () => {
  const expected = [...usersOf({ cluster: "main", apps: [APP] }), LOCAL_USER].map(rowOf);
  const lines = readFileSync(join(import.meta.dirname, "../../docs/security.md"), "utf8").split("\n");
  const head = lines.findIndex((line) => line.startsWith("| user |"));
  const rows = lines.slice(head + 2);
  expect(
    rows.slice(
      0,
      rows.findIndex((line) => !line.startsWith("|")),
    ),
  ).toEqual(expected);
});
