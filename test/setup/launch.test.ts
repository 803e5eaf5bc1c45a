import { expect, test } from "vitest";
import { serves, startsServer } from "../../infra/setup/launch.mjs";

test("a nats-server is brought for the commands that start one, and for no others", () => {
  const starts = (line: string): boolean => startsServer(line.split(" "));
  for (const line of ["up", "up --json --port 0", "up --nodes 2 -f tutti.yaml", "up --nats-port 1"])
    expect([line, starts(line)]).toEqual([line, true]);
  const others = [
    "up --help",
    "up -h",
    "up --json -h",
    "up --nats nats://a",
    "up --nats=nats://a",
    "status",
    "help up",
  ];
  for (const line of others) expect([line, starts(line)]).toEqual([line, false]);
  expect(startsServer([])).toBe(false);
});

test("the console's page is built for the commands that serve it, and not for a help text", () => {
  const isServing = (line: string): boolean => serves(line.split(" "));
  for (const line of ["up", "up --nats nats://a"]) expect([line, isServing(line)]).toEqual([line, true]);
  for (const line of ["up --help", "up --nats nats://a -h", "status"])
    expect([line, isServing(line)]).toEqual([line, false]);
});
