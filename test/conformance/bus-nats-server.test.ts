import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { type AddressInfo, createServer, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { connectNats, startNatsServer } from "@tutti/bus-nats";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { freePorts } from "../fixtures/configured-nats.ts";

let dir = "";
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "tutti-server-"));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

test("a server is ready when its start resolves, monitors itself, and frees its port when it stops", async () => {
  const server = await startNatsServer({ dir, monitoringPort: 0 });
  expect((await fetch(`${server.monitoringUrl}/healthz`)).status).toBe(200);
  expect(await reachable(server.port)).toBe(true);
  await server.stop();
  await server.stop();
  expect(await reachable(server.port)).toBe(false);
  expect(server.pid).toBeUndefined();
});

test("a server that dies unasked says so with the end of its log, and one that is killed by request does not", async () => {
  const server = await startNatsServer({ dir });
  let deaths = 0;
  void server.died.then(() => deaths++);
  const { port } = server;
  await server.kill();
  await server.restart();
  expect([server.port, deaths]).toEqual([port, 0]);
  process.kill(server.pid!, "SIGKILL");
  expect(await server.died).toContain("Server is ready");
});

test("of a server that crashed, the reason is kept, however many goroutines it lists after it", async () => {
  const server = await startNatsServer({ dir });
  process.kill(server.pid!, "SIGQUIT"); // the runtime of Go prints all goroutines, as for a panic
  const log = await server.died;
  expect(log.split("\n")[0]).toBe("SIGQUIT: quit");
  expect(log).toContain("goroutine");
});

test("a server that cannot start says why", async () => {
  const taken = createServer().listen(0, "127.0.0.1");
  await once(taken, "listening");
  const { port } = taken.address() as AddressInfo;
  await expect(startNatsServer({ dir, port })).rejects.toThrow(/ended at once(.|\n)*address already in use/);
  await expect(startNatsServer({ dir, binary: join(dir, "absent") })).rejects.toThrow(/cannot be run/);
  await new Promise((resolve) => taken.close(resolve));
});

test("a server ends when its owner is killed", async () => {
  const program = `
    import { connectNats, startNatsServer } from "@tutti/bus-nats";
    const server = await startNatsServer({ dir: ${JSON.stringify(dir)} });
    console.log(server.port);
    setInterval(() => {}, 1000);`;
  const owner = spawn(process.execPath, ["--input-type=module", "-e", program], {
    cwd: import.meta.dirname,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = (await once(createInterface({ input: owner.stdout }), "line")) as [string];
  const socket = connect(Number(line), "127.0.0.1");
  await once(socket, "connect");
  const gone = once(socket, "close");
  socket.on("error", () => {});
  socket.resume();
  owner.kill("SIGKILL");
  await gone;
  // The kernel closes a killed process' sockets one after the other: the listening one may be the last.
  await vi.waitFor(async () => expect(await reachable(Number(line))).toBe(false), { interval: 5 });
});

test("what was asked of the store when the connection broke fails at once, files too", async () => {
  const server = await startNatsServer({ dir });
  const nats = await connectNats({ servers: server.url, name: "test" });
  const { store } = nats;
  const stored = await new Promise((resolve) => store.files.put("f", new Uint8Array(30_000_000), resolve));
  expect(stored).toBe("stored");
  // A stopped server answers nothing, and its connections stay open.
  process.kill(server.pid!, "SIGSTOP");
  const asked = [
    new Promise((resolve) => store.get("b", "key", resolve)),
    new Promise((resolve) => store.files.get("f", resolve)),
    new Promise((resolve) => store.files.delete("f", resolve)),
  ];
  const killedAt = performance.now();
  await server.kill();
  expect(await Promise.all(asked)).toEqual(Array(3).fill({ failure: "the connection was lost" }));
  expect(performance.now() - killedAt).toBeLessThan(1_500); // the library itself would wait for 2 s and more
  await nats.close();
});

async function reachable(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

test("a server that can't write its configuration starts on the one of before, where its port was given", async () => {
  const [port = 0] = await freePorts(1);
  const first = await startNatsServer({ dir, port });
  await first.stop();
  await mkdir(join(dir, "nats.conf.new")); // stands for a full disk: what is written there fails
  const second = await startNatsServer({ dir, port });
  expect(await reachable(port)).toBe(true);
  await second.stop();
  await expect(startNatsServer({ dir })).rejects.toThrow(/EISDIR/);
});
