import { connect as connectPlain } from "node:net";
import { createAuthority, signServer } from "@tutti/admin/certificates";
import type { DataClient, DataServer, PullOutcome } from "@tutti/ports/pull";
import { TcpDataClient, type TcpDataServer, serveTcp } from "@tutti/pull-tcp";
import { actorKey } from "@tutti/units";
import { TOKEN_BYTES } from "@tutti/protocol";
import { expect, test } from "vitest";
import { type DataPlane, dataPlaneConformance } from "./data-plane.suite.ts";

const authority = await createAuthority("test", 1);
const signed = await signServer(authority, ["127.0.0.1"], 1);
const tls = { cert: signed.certificate, key: signed.key };
const opened: (DataServer | DataClient)[] = [];

const plane: DataPlane = {
  serve: async (key, handlers) => {
    const server = serveTcp({ key, handlers, tls });
    opened.push(server);
    await server.listening;
    return server;
  },
  connect: (key) => {
    const client = new TcpDataClient({ key, ca: authority.certificate });
    opened.push(client);
    return Promise.resolve(client);
  },
  closeAll: async () => {
    await Promise.all(opened.splice(0).map((it) => new Promise<void>((resolve) => it.close(resolve))));
  },
};

dataPlaneConformance("TCP with TLS", () => plane);

const INGRESS = actorKey(2 ** 40 + 1);
const EXECUTOR = actorKey(2 ** 41 + 2);
const faults: string[] = [];

async function serving(certificate = tls): Promise<TcpDataServer> {
  const server = serveTcp({
    key: INGRESS,
    tls: certificate,
    handlers: {
      onPull: (pull, reply) =>
        reply(pull.seqs.map((seq) => ({ seq, row: new Uint8Array(8).fill(42), traceparent: "" }))),
      onResults: () => undefined,
    },
    onFault: (text) => faults.push(text),
  });
  opened.push(server);
  await server.listening;
  return server;
}

function pulled(
  server: DataServer,
  options: { readonly ca?: string; readonly claimsPlain?: true },
): Promise<PullOutcome> {
  const client = new TcpDataClient({
    key: EXECUTOR,
    connectTimeoutMs: 500,
    ...(options.ca !== undefined && { ca: options.ca }),
  });
  opened.push(client);
  const { address } = server;
  const peer = { key: INGRESS, address: address && options.claimsPlain ? { ...address, tls: false } : address };
  const pull = { executor: EXECUTOR, gpu: 0, thread: 64, batchId: 1, batcher: 9, token: new Uint8Array(TOKEN_BYTES) };
  return new Promise((resolve) => client.pull(peer, { ...pull, seqs: [1] }, 5_000, resolve));
}

test("an executor takes rows only from an ingress whose certificate its own authority has signed for that address", async () => {
  const server = await serving();
  expect(await pulled(server, { ca: authority.certificate })).toHaveProperty("items");
  const stranger = await createAuthority("test", 1);
  expect(await pulled(server, { ca: stranger.certificate })).toEqual({ failure: "unreachable" });
  expect(await pulled(server, {})).toEqual({ failure: "unreachable" });
  const elsewhere = await signServer(authority, ["ingress.example"], 1);
  const misplaced = await serving({ cert: elsewhere.certificate, key: elsewhere.key });
  expect(await pulled(misplaced, { ca: authority.certificate })).toEqual({ failure: "unreachable" });
  const past = await signServer(authority, ["127.0.0.1"], -0.01);
  const expired = await serving({ cert: past.certificate, key: past.key });
  expect(await pulled(expired, { ca: authority.certificate })).toEqual({ failure: "unreachable" });
  await plane.closeAll();
});

test("an executor that has an authority never speaks plain text, whatever the ingress' heartbeat claims", async () => {
  const server = await serving();
  expect(await pulled(server, { ca: authority.certificate, claimsPlain: true })).toEqual({ failure: "unreachable" });
  expect(server.figures.connections).toBe(0);
  await plane.closeAll();
});

test("plain text to a TLS port gets no byte of an answer, and the ingress serves on", async () => {
  const server = await serving();
  const before = faults.length;
  const port = server.address?.port ?? 0;
  const heard = await new Promise<string>((resolve) => {
    let text = "";
    const socket = connectPlain({ host: "127.0.0.1", port });
    socket.on("data", (chunk) => (text += chunk.toString("latin1")));
    socket.on("error", () => undefined);
    socket.on("close", () => resolve(text));
    socket.write(Buffer.from("DT\u0001\u0001 this is no handshake, whatever it is, and long enough to be looked at"));
  });
  expect(heard).not.toContain("DT"); // at most a TLS alert
  expect(heard.length).toBeLessThan(16);
  expect(faults.slice(before).join()).toMatch(/TLS/);
  expect(await pulled(server, { ca: authority.certificate })).toHaveProperty("items");
  await plane.closeAll();
});
