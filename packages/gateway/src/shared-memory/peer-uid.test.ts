import { once } from "node:events";
import { type AddressInfo, type Socket, connect, createServer } from "node:net";
import { expect, test } from "vitest";
import { peerUid, uidIn } from "./peer-uid.ts";

const LINES = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     7        0 1 1 0 100 0 0 10 0
   1: 0100007F:1F40 0100007F:C350 01 00000000:00000000 00:00000000 00000000     7        0 2 1 0 100 0 0 10 0
   2: 0100007F:C350 0100007F:1F41 01 00000000:00000000 00:00000000 00000000  1002        0 3 1 0 100 0 0 10 0
   3: 0200007F:C350 0100007F:1F40 01 00000000:00000000 00:00000000 00000000  1003        0 4 1 0 100 0 0 10 0
   4: 0100007F:C350 0100007F:1F40 06 00000000:00000000 00:00000000 00000000     0        0 5 1 0 100 0 0 10 0
`;
const CLIENT = `   5: 0100007F:C350 0100007F:1F40 01 00000000:00000000 00:00000000 00000000  1001        0 6 1 0 100 0 0 10 0
`;
const connection = { remoteAddress: "127.0.0.1", remotePort: 50_000, localAddress: "127.0.0.1", localPort: 8_000 };

test("the client's own socket says whose it is: neither the server's, nor one to another port, from another address or closed", () => {
  expect(uidIn(LINES, connection)).toBeUndefined();
  expect(uidIn(LINES + CLIENT, connection)).toBe(1001);
  expect(uidIn(LINES + CLIENT, { ...connection, remoteAddress: "::ffff:127.0.0.1" })).toBe(1001);
  expect(uidIn(LINES, { ...connection, remoteAddress: "127.0.0.2" })).toBe(1003);
  const mapped = CLIENT.replaceAll("0100007F:", "0000000000000000FFFF00000100007F:");
  expect(uidIn(LINES + mapped, connection)).toBe(1001);
  const six = CLIENT.replaceAll("0100007F:", "00000000000000000000000001000000:");
  expect(uidIn(LINES + six, { ...connection, remoteAddress: "::1", localAddress: "::1" })).toBe(1001);
  expect(uidIn(LINES + six, { ...connection, remoteAddress: "fe80::1", localAddress: "::1" })).toBeUndefined();
  expect(uidIn("", connection)).toBeUndefined();
});

test.skipIf(process.platform !== "linux")("a connection of this process is of its own user", async () => {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
  const [socket] = (await once(server, "connection")) as [Socket];
  const { remoteAddress = "", remotePort = 0, localAddress = "", localPort = 0 } = socket;
  expect(await peerUid({ remoteAddress, remotePort, localAddress, localPort })).toBe(process.geteuid?.());
  expect(await peerUid({ remoteAddress, remotePort: 1, localAddress, localPort })).toBeUndefined();
  client.destroy();
  socket.destroy();
  server.close();
});

test.skipIf(process.platform !== "linux")("many that ask at once all get their answer", async () => {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const sockets: Socket[] = [];
  server.on("connection", (socket) => sockets.push(socket));
  const { port } = server.address() as AddressInfo;
  const clients = Array.from({ length: 50 }, () => connect(port, "127.0.0.1"));
  await Promise.all(clients.map((client) => once(client, "connect")));
  while (sockets.length < clients.length) await once(server, "connection");
  const uids = sockets.map(({ remoteAddress = "", remotePort = 0, localAddress = "", localPort = 0 }) =>
    peerUid({ remoteAddress, remotePort, localAddress, localPort }),
  );
  expect(new Set(await Promise.all(uids))).toEqual(new Set([process.geteuid?.()]));
  for (const socket of [...clients, ...sockets]) socket.destroy();
  server.close();
});
