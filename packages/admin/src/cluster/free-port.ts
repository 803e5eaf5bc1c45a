import { once } from "node:events";
import { createServer } from "node:net";

/** A port on loopback: `wanted` if it is free, else any. */
export async function freePort(wanted: number): Promise<number> {
  if (wanted !== 0 && (await isFree(wanted))) return wanted;
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const address = probe.address();
  probe.close();
  await once(probe, "close");
  return typeof address === "object" && address !== null ? address.port : 0;
}

export async function isFree(port: number): Promise<boolean> {
  const probe = createServer();
  const free = new Promise<boolean>((resolve) => {
    probe.once("error", () => resolve(false));
    probe.once("listening", () => probe.close(() => resolve(true)));
  });
  probe.listen(port, "127.0.0.1");
  return free;
}
