/**
 * Headers that a server passes on and no client library of ours would send. They are written to the server's socket by
 * hand.
 */
import { once } from "node:events";
import { connect } from "node:net";
import type { Delivery } from "@tutti/ports/bus";
import { afterAll, expect, test } from "vitest";
import { withNats } from "../fixtures/nats.ts";
import { until } from "./bus-tools.ts";

const nats = withNats();
const ending: (() => void)[] = [];
afterAll(() => ending.forEach((end) => end()));

async function rawConnection() {
  const socket = connect({ host: "127.0.0.1", port: Number(new URL(nats().url).port) });
  ending.push(() => socket.destroy());
  await once(socket, "data"); // its INFO
  socket.write('CONNECT {"verbose":false,"headers":true,"protocol":1}\r\n');
  return (subject: string, headers: string, payload: string): void => {
    const size = Buffer.byteLength(headers);
    socket.write(`HPUB ${subject} ${size} ${size + Buffer.byteLength(payload)}\r\n${headers}${payload}\r\n`);
  };
}

const CASES: readonly (readonly [name: string, headers: string, readable: boolean])[] = [
  ["a name with a space", "NATS/1.0\r\nBad Name: x\r\n\r\n", false],
  ["a name with control characters", "NATS/1.0\r\n\u0001\u0002: x\r\n\r\n", false],
  ["a name that is not ASCII", "NATS/1.0\r\nGrüße: x\r\n\r\n", false],
  ["a line feed within a value", "NATS/1.0\r\nA: x\ny: z\r\n\r\n", false],
  ["a line without a colon", "NATS/1.0\r\nnothing\r\n\r\n", true],
  ["another version", "NATS/9.9\r\nA: x\r\n\r\n", true],
  ["a code that is none", "NATS/1.0 abc def\r\n\r\n", true],
  ["nothing but a version", "NATS/1.0\r\n\r\n", true],
];

test("headers of any kind reach a subscriber without an exception; what can't be read is said to be so", async () => {
  const { control } = await nats().connect();
  const errors: string[] = [];
  control.onStatus((status) => status.kind === "error" && errors.push(status.text));
  const heard: {
    readonly payload: string;
    readonly readable: boolean;
    readonly a: string | undefined;
    readonly bytes: number;
  }[] = [];
  control.subscribe("raw", (delivery: Delivery) => {
    const payload = Buffer.from(delivery.payload).toString();
    const readable = delivery.headersUnreadable !== true;
    heard.push({ payload, readable, a: delivery.header("A"), bytes: delivery.headerBytes ?? 0 });
  });
  await new Promise((resolve) => control.flush(resolve));
  const send = await rawConnection();
  for (const [name, headers] of CASES) send("raw", headers, name);
  send("raw", "NATS/1.0\r\nA: good\r\n\r\n", "last");
  await until(() => heard.some(({ payload }) => payload === "last"));
  expect(heard.slice(0, -1).map(({ payload, readable }) => [payload, readable])).toEqual(
    CASES.map(([name, , readable]) => [name, readable]),
  );
  expect(heard.map(({ bytes }) => bytes)).toEqual([...CASES.map(([, headers]) => Buffer.byteLength(headers)), 21]);
  expect(heard.at(-1)).toMatchObject({ a: "good", readable: true });
  expect(errors).toEqual([]);
});
