import { once } from "node:events";
import { type AddressInfo, type Socket, connect } from "node:net";
import { afterAll, expect, test } from "vitest";
import { answerProbes } from "./probes.ts";

let unready: string | undefined = "starting";
const sockets: Socket[] = [];
const onError = (error: Error): void => void expect.unreachable(error.message);
const server = answerProbes({ host: "127.0.0.1", port: 0 }, { unready: () => unready, onError });
await once(server, "listening");
const { port } = server.address() as AddressInfo;
afterAll(() => {
  for (const socket of sockets) socket.destroy();
  server.close();
});

async function ask(path: string): Promise<string> {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`);
  return `${answer.status} ${(await answer.text()).trim()}`;
}

test("a process is alive while its event loop turns, and ready while its actors serve", async () => {
  expect([await ask("/live"), await ask("/ready")]).toEqual(["200 ok", "503 starting"]);
  unready = undefined;
  expect([await ask("/live"), await ask("/ready")]).toEqual(["200 ok", "200 ok"]);
  expect(await ask("/")).toBe("404 there are /live and /ready");
});

test("connections beyond the bound are closed, and taken again when others have gone", async () => {
  for (let i = 0; i < 16; i++) {
    const taken = once(server, "connection");
    sockets.push(connect(port, "127.0.0.1"));
    await taken;
  }
  await expect(ask("/live")).rejects.toThrow("fetch failed");
  const [socket] = sockets.splice(0, 1);
  socket!.destroy();
  await expect.poll(() => ask("/live").catch(() => "refused")).toBe("200 ok");
});

test("a replacement that starts beside the old process answers once that has ended, and complains once", async () => {
  const listenOn = (at: number, told: string[]) =>
    answerProbes(
      { host: "127.0.0.1", port: at },
      { unready: () => undefined, onError: (error) => void told.push((error as NodeJS.ErrnoException).code ?? "") },
    );
  const old = listenOn(0, []);
  await once(old, "listening");
  const { port: shared } = old.address() as AddressInfo;
  const told: string[] = [];
  const replacement = listenOn(shared, told);
  await once(replacement, "error");
  await once(replacement, "error");
  old.close();
  await once(replacement, "listening");
  expect(await (await fetch(`http://127.0.0.1:${shared}/ready`)).text()).toBe("ok\n");
  expect(told).toEqual(["EADDRINUSE"]);
  replacement.close();
});
