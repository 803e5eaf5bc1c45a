import { once } from "node:events";
import { type AddressInfo, type Socket, createServer } from "node:net";
import { TuttiError } from "@tutti/protocol";
import { expect, test } from "vitest";
import { isAtLeast } from "./connect-buses.ts";
import { connectNats } from "./connect-nats.ts";
import { inboxPrefixOf } from "./credentials.ts";
import { OutgoingHeaders } from "./nats-delivery.ts";

test("versions are compared number by number", () => {
  expect(
    ["2.9.10", "2.9.11", "2.10.0", "2.14.3-beta.1", "3.0.0"].map((version) => isAtLeast(version, "2.9.10")),
  ).toEqual([true, true, true, true, true]);
  expect(["2.9.9", "2.8.99", "1.10.10", "", "dev"].map((version) => isAtLeast(version, "2.9.10"))).toEqual([
    false,
    false,
    false,
    false,
    false,
  ]);
});

/**
 * Starts a TCP server that claims to be a NATS server of this version. It answers pings while `answers` returns true.
 */
async function pretending(version: string, answers: () => boolean = () => true, more: object = {}) {
  const at = { host: "127.0.0.1", port: 1 };
  const info = { server_id: "X", version, go: "go1", ...at, headers: true, max_payload: 1e6, proto: 1, ...more };
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.write(`INFO ${JSON.stringify(info)}\r\n`);
    socket.on("data", (data) => void (answers() && data.includes("PING") && socket.write("PONG\r\n")));
    socket.on("error", () => {});
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const send = (text: string): void => void sockets.forEach((socket) => socket.write(text));
  return { url: `nats://127.0.0.1:${port}`, send, close: () => new Promise((resolve) => server.close(resolve)) };
}

test("a server older than 2.9.10 is refused with its version and the one that is needed", async () => {
  const { url, close } = await pretending("2.8.4");
  const error = await connectNats({ servers: url, name: "test" }).catch((caught: unknown) => caught);
  expect(error).toBeInstanceOf(TuttiError);
  expect(error).toMatchObject({ code: "TUTTI_UNAVAILABLE", retryable: false });
  expect((error as Error).message).toMatch(/2\.9\.10 or newer is needed; .* runs 2\.8\.4/);
  await close();
});

test("an error names the servers without users and passwords", async () => {
  const refusing = createServer((socket) => {
    socket.write('INFO {"server_id":"X","version":"2.10.19","auth_required":true,"max_payload":1000,"proto":1}\r\n');
    socket.on("data", () => socket.end("-ERR 'Authorization Violation'\r\n")).on("error", () => {});
  }).listen(0, "127.0.0.1");
  await once(refusing, "listening");
  const { port } = refusing.address() as AddressInfo;
  const errorAt = async (servers: string) => {
    const error: unknown = await connectNats({ servers, name: "test" }).catch((caught: unknown) => caught);
    return (error as Error).message;
  };
  expect(await errorAt("nats://joe:s3,cret@127.0.0.1:1,nats://joe:s3/cret@127.0.0.1:1")).toMatch(
    /^no NATS server answers at nats:\/\/\*\*\*@127\.0\.0\.1:1,nats:\/\/\*\*\*@127\.0\.0\.1:1: [^@]+$/,
  );
  expect(await errorAt(`joe:s3cret@127.0.0.1:${port}`)).toMatch(
    new RegExp(`^\\*\\*\\*@127\\.0\\.0\\.1:${port} does not accept the credentials of test: [^@]+$`),
  );
  refusing.close();
});

test("a cluster of servers whose replicas may differ after a kill is warned of; a single server of that version is not", async () => {
  const warned = async (version: string, more: object) => {
    const { url, close } = await pretending(version, () => true, more);
    const connection = await connectNats({ servers: url, name: "test" });
    await connection.close();
    await close();
    return connection.warning;
  };
  expect(await warned("2.10.18", { cluster: "c" })).toMatch(/2\.10\.18 may keep .*: use 2\.10\.19 or newer/);
  expect(await warned("2.10.19", { cluster: "c" })).toBeUndefined();
  expect(await warned("2.9.10", {})).toBeUndefined();
});

test("an attempt at a server that says nothing leaves no connection, which would keep the process", async () => {
  const server = createServer((socket) => void socket.resume().on("close", () => server.close()));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const closed = once(server, "close");
  const servers = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  await expect(connectNats({ servers, name: "test" })).rejects.toThrow("timeout");
  await closed;
}, 20_000);

test("closing ends also where the server answers nothing any more", async () => {
  let answers = true;
  const { url, close } = await pretending("2.10.0", () => answers);
  const connection = await connectNats({ servers: url, name: "test" });
  answers = false;
  await connection.close();
  await close();
});

test("a server whose one long message takes seconds is not silent", async () => {
  let answers = true;
  const { url, close, send } = await pretending("2.10.0", () => answers);
  const connection = await connectNats({ servers: url, name: "test" });
  answers = false; // its PONGs wait behind the message
  send("MSG long 1 7000000\r\n");
  const sending = setInterval(() => send("x".repeat(1_000)), 20);
  const kinds: string[] = [];
  await new Promise<void>((resolve) =>
    connection.control.onStatus(({ kind }) => kinds.push(kind) && kind === "slow-consumer" && resolve()),
  );
  clearInterval(sending);
  expect(kinds).not.toContain("silent");
  await connection.close();
  await close();
}, 20_000);

test("a credentials file names the inbox prefix that goes with it; others name none", () => {
  const text = "# ranker\n# inbox-prefix: _INBOX_ranker\nSUA\n";
  expect(inboxPrefixOf({ kind: "file", text })).toBe("_INBOX_ranker");
  expect(inboxPrefixOf({ kind: "file", text: "SUA\n" })).toBeUndefined();
  expect(inboxPrefixOf({ kind: "token", token: "x" })).toBeUndefined();
});

test("headers are framed as NATS frames them, and what would break the frame is refused", () => {
  const text = (headers: Record<string, string>) => {
    const outgoing = OutgoingHeaders.of(headers);
    return outgoing && new TextDecoder().decode(outgoing.encode());
  };
  expect(text({ "Tutti-Slo": "25ms", traceparent: "ü" })).toBe("NATS/1.0\r\nTutti-Slo: 25ms\r\ntraceparent: ü\r\n\r\n");
  expect([text({ "": "x" }), text({ "a b": "x" }), text({ a: "x\n" }), text({ "a:": "x" })]).toEqual([
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
});
