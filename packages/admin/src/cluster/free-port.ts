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

/** Whether a port of loopback can be listened on. */
export const isFree = async (port: number): Promise<boolean> =>
  (await listenFailure({ port, host: "127.0.0.1" })) === undefined;

/** Error code of listening there, such as EADDRINUSE; undefined: it works. */
export async function listenFailure(at: { readonly port: number; readonly host: string }): Promise<string | undefined> {
  const probe = createServer();
  const failure = new Promise<string | undefined>((resolve) => {
    probe.once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    probe.once("listening", () => probe.close(() => resolve(undefined)));
  });
  probe.listen(at);
  return failure;
}
