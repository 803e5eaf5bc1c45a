import { type Socket, connect } from "node:net";
import { expect, test } from "vitest";
import { listen } from "../listening.ts";
import { heldUntilSent, send } from "./answers.ts";
import { BodyReader } from "./body-reader.ts";
import { boundedServer } from "./bounded-server.ts";

const settled = (): Promise<unknown> => new Promise((resolve) => setTimeout(resolve, 20));

test("long answers count until they are read, and beyond what there is for all a client is told so instead", async () => {
  const [answerBytes, room] = [20_000_000, 50_000_000];
  const bodies = new BodyReader(answerBytes, room);
  const answer = { status: 200, chunks: [new Uint8Array(answerBytes)] };
  let asked = 0;
  const server = boundedServer((_, response) => {
    asked++;
    send(response, heldUntilSent(answer, response, bodies));
  });
  const port = await listen(server, "127.0.0.1", { port: 0 });
  const ask = (): Socket => {
    const socket = connect(port, "127.0.0.1").pause();
    socket.write("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
    return socket;
  };
  const sockets = Array.from({ length: 6 }, ask);
  while (asked < sockets.length) await settled();
  expect(bodies.bytes).toBe(2 * answerBytes);
  // A client that reads makes room, and so does one that disconnects.
  let read = "";
  for (const socket of sockets) socket.on("data", (bytes) => (read += bytes.toString("latin1", 0, 12))).resume();
  while (bodies.bytes > 0) await settled();
  expect(read).toContain("HTTP/1.1 503");
  const gone = ask();
  while (bodies.bytes === 0) await settled();
  gone.destroy();
  while (bodies.bytes > 0) await settled();
  for (const socket of sockets) socket.destroy();
  server.close();
});
