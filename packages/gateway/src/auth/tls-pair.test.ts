/** A gateway with TLS, whose certificate is renewed under open connections. */
import { X509Certificate } from "node:crypto";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { Agent, type RequestOptions, request } from "node:https";
import { connect as connectPlain } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TLSSocket, connect } from "node:tls";
import { Metadata, type ServiceError, credentials } from "@grpc/grpc-js";
import { type KeyAndCertificate, createAuthority, signServer } from "@tutti/admin/certificates";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { inferenceService } from "../grpc/grpc-front.ts";
import { GatewayScene } from "../testing/gateway-scene.ts";

let folder: string;
let authority: KeyAndCertificate;
let scene: GatewayScene;

async function renew(): Promise<X509Certificate> {
  const signed = await signServer(authority, ["127.0.0.1", "localhost"], 5);
  for (const [name, text] of [
    ["cert.pem", signed.certificate],
    ["key.pem", signed.key],
  ] as const) {
    writeFileSync(join(folder, `${name}.new`), text);
    renameSync(join(folder, `${name}.new`), join(folder, name));
  }
  return new X509Certificate(signed.certificate);
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tutti-tls-"));
  authority = await createAuthority("test", 10);
});
afterAll(() => rmSync(folder, { recursive: true }));
beforeEach(async () => {
  await renew();
  const tls = { cert: join(folder, "cert.pem"), key: join(folder, "key.pem"), lookEveryMs: 20 };
  scene = await GatewayScene.open({ tls });
});
afterEach(() => scene.close());

const port = (): number => Number(new URL(scene.addresses.http).port);

function get(path: string, options: RequestOptions): Promise<{ readonly status: number; readonly socket: TLSSocket }> {
  return new Promise((resolve, reject) => {
    request({ host: "127.0.0.1", port: port(), path, ca: authority.certificate, ...options }, (response) => {
      const socket = response.socket as TLSSocket;
      response.resume();
      response.on("end", () => resolve({ status: response.statusCode ?? 0, socket }));
    })
      .on("error", reject)
      .end();
  });
}

/** Fingerprint of the certificate that a new connection gets. */
function shownOn(at: number, ALPNProtocols?: string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port: at, ca: authority.certificate };
    const socket = connect({ ...options, ...(ALPNProtocols !== undefined && { ALPNProtocols }) }, () => {
      resolve(socket.getPeerX509Certificate()?.fingerprint256 ?? "");
      socket.destroy();
    });
    socket.on("error", reject);
  });
}

test("HTTP and gRPC speak TLS with one certificate, and nothing else", async () => {
  expect(scene.addresses.http).toMatch(/^https:/);
  expect((await get("/v2/health/live", {})).status).toBe(200);
  await expect(get("/v2/health/live", { ca: (await createAuthority("other", 1)).certificate })).rejects.toThrow();
  const heard = await new Promise<string>((resolve) => {
    let text = "";
    const socket = connectPlain({ host: "127.0.0.1", port: port() }, () =>
      socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    );
    socket.on("data", (chunk) => (text += chunk.toString("latin1")));
    socket.on("error", () => undefined);
    socket.on("close", () => resolve(text));
  });
  expect(heard).not.toContain("HTTP/1.1 200");
});

test("a renewed certificate is shown to those that come, and no connection that is there ends for it", async () => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const before = await get("/v2/health/live", { agent });
  const client = new (inferenceService())(
    scene.addresses.grpc,
    credentials.createSsl(Buffer.from(authority.certificate)),
  );
  type Live = (
    message: object,
    metadata: Metadata,
    done: (error: ServiceError | null, answer: unknown) => void,
  ) => void;
  const live = (): Promise<unknown> =>
    new Promise((resolve, reject) => {
      const ask = (client as unknown as Record<string, Live>)["ServerLive"]!.bind(client);
      ask({}, new Metadata(), (error, answer) => (error === null ? resolve(answer) : reject(error)));
    });
  expect(await live()).toEqual({ live: true });
  const { fingerprint256 } = await renew();
  await expect.poll(() => shownOn(port())).toBe(fingerprint256);
  const grpcPort = Number(scene.addresses.grpc.split(":").at(-1));
  await expect.poll(() => shownOn(grpcPort, ["h2"])).toBe(fingerprint256);
  const after = await get("/v2/health/live", { agent });
  expect([after.status, after.socket === before.socket]).toEqual([200, true]);
  expect(await live()).toEqual({ live: true });
  agent.destroy();
  client.close();
});

test("a pair that does not belong together is passed over until it does", async () => {
  const before = await shownOn(port());
  const other = await signServer(authority, ["127.0.0.1"], 5);
  writeFileSync(join(folder, "cert.pem"), other.certificate);
  await new Promise((resolve) => setTimeout(resolve, 100)); // several checks of the files
  expect(await shownOn(port())).toBe(before);
  writeFileSync(join(folder, "key.pem"), other.key);
  await expect.poll(() => shownOn(port())).toBe(new X509Certificate(other.certificate).fingerprint256);
});

test("a gateway without its certificate does not start", async () => {
  const tls = { cert: join(folder, "none.pem"), key: join(folder, "key.pem") };
  await expect(GatewayScene.open({ tls })).rejects.toThrow(/none\.pem/);
});
