/**
 * Files that `tutti auth` writes, used by real servers. The tests check which users the servers admit, which they
 * reject, and how expired credentials end connections.
 */
import { copyFileSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { connect as connectPlain } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  NATS_CONNECTIONS_MAX,
  NATS_PENDING_BYTES_MAX,
  NATS_STREAMS_MAX,
  NATS_SUBSCRIPTIONS_MAX,
  type NatsConnection,
  connectNats,
  isAtLeast,
  readCredentials,
  usersOf,
} from "@tutti/bus-nats";
import { AuthDirectory } from "@tutti/admin/auth";
import { createAuthority } from "@tutti/admin/certificates";
import { OUR_PAYLOAD_BYTES_MAX } from "@tutti/protocol";
import { afterEach, describe, expect, test } from "vitest";
import { tutti } from "../e2e/tutti-up.ts";
import { type ConfiguredNats, freePorts, startConfigured } from "../fixtures/configured-nats.ts";
import { until } from "./bus-tools.ts";

const EVERYONE = usersOf({ cluster: "main", apps: ["camera"] }).map(({ name }) => name);
const NOTHING = new Uint8Array(0);

const ending: (() => Promise<unknown> | void)[] = [];
afterEach(async () => {
  for (const end of ending.splice(0).reverse()) await end();
});

interface Setup {
  readonly dir: string;
  readonly url: string;
  readonly server: ConfiguredNats;
}

/** Sets up as the command line does: `tutti auth init`, and a server with the files that it wrote. */
async function setUp(...flags: string[]): Promise<Setup> {
  const dir = mkdtempSync(join(tmpdir(), "tutti-auth-"));
  ending.push(() => rmSync(dir, { recursive: true, force: true }));
  const [port = 0] = await freePorts(1);
  const made = await auth(dir, "init", "--port", String(port), "--app", "camera", ...flags);
  expect(made.stderr).toBe("");
  const server = await startConfigured(join(dir, "nats.conf"));
  ending.push(() => server.stop());
  return { dir, url: `nats://127.0.0.1:${port}`, server };
}

const auth = (dir: string, command: string, ...args: string[]) =>
  tutti(["auth", command, ...args, "--dir", dir, "--json"]);

const credsOf = (dir: string, user: string): string => {
  const name = readdirSync(join(dir, "creds")).find((file) => file.replace(/\.\w+$/, "") === user);
  return join(dir, "creds", name ?? user);
};

async function connectAs(setup: Setup, path: string, caFile?: string): Promise<NatsConnection> {
  const connection = await connectNats({
    servers: setup.url,
    name: "test",
    credentials: readCredentials(path),
    ...(caFile !== undefined && { tls: { caFile } }),
  });
  ending.push(() => connection.close());
  return connection;
}

/** Connects once the server admits the user: it takes a moment to read its configuration again. */
async function comesIn(setup: Setup, path: string): Promise<NatsConnection> {
  for (;;) {
    const connection = await connectAs(setup, path).catch(() => undefined);
    if (connection !== undefined) return connection;
  }
}

const refusal = (connecting: Promise<NatsConnection>): Promise<unknown> =>
  connecting.then(
    () => "it came in",
    (error: { readonly code?: string }) => error.code,
  );

/** The subjects among these that the connection may not publish to. */
async function deniedPublishing({ control }: NatsConnection, subjects: readonly string[]): Promise<string[]> {
  const denied: string[] = [];
  const watching = control.onStatus((status) => status.kind === "permission-denied" && denied.push(status.subject));
  for (const subject of subjects) control.publish(subject, NOTHING);
  await new Promise((resolve) => control.flush(resolve));
  await new Promise((resolve) => setImmediate(resolve));
  watching.stop();
  return denied;
}

function closing({ control }: NatsConnection): Promise<void> {
  return new Promise((resolve) => control.onStatus(({ kind }) => kind === "closed" && resolve()));
}

describe.each([
  { kind: "public keys", flags: [] },
  { kind: "signed tokens", flags: ["--jwt"] },
])("with $kind", ({ kind, flags }) => {
  test("every role, the operator and an application come in as what they are, and nobody else does", async () => {
    const setup = await setUp(...flags);
    expect(
      readdirSync(join(setup.dir, "creds"))
        .map((file) => file.replace(/\.\w+$/, ""))
        .toSorted(),
    ).toEqual(EVERYONE.toSorted());
    for (const user of EVERYONE) await connectAs(setup, credsOf(setup.dir, user));
    const app = await connectAs(setup, credsOf(setup.dir, "app-camera"));
    const inside = ["infer.mlp.robot", "tutti.v1.main.all.batcher", "$KV.tutti_models.x", "_INBOX.robot.x", "$SYS.x"];
    expect(await deniedPublishing(app, ["infer.mlp.camera", ...inside])).toEqual(inside);
    expect(await refusal(connectNats({ servers: setup.url, name: "nobody" }))).toBe("TUTTI_FORBIDDEN");
    const other = await AuthDirectory.create(
      join(setup.dir, "other"),
      { cluster: "main", servers: AuthDirectory.open(setup.dir).servers, apps: [], tokens: flags[0] ? "jwt" : "nkeys" },
      "keep",
    );
    const stranger = connectNats({
      servers: setup.url,
      name: "stranger",
      credentials: readCredentials(credsOf(other.dir, "admin")),
    });
    expect(await refusal(stranger)).toBe("TUTTI_FORBIDDEN");
  });

  test("keys and configuration are their owner's alone", async () => {
    const { dir } = await setUp(...flags, "--tls");
    for (const entry of readdirSync(dir, { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name);
      // Skip the server's own files: its process id, and a store below a folder that no other user enters.
      if (path.startsWith(join(dir, "store")) || entry.name === "nats.pid") continue;
      expect([path, statSync(path).mode & 0o77]).toEqual([path, 0]);
    }
    expect(statSync(dir).mode & 0o77).toBe(0);
  });

  test("an application that is revoked is cut off and stays out, one that is added comes in, and the others serve on", async () => {
    const setup = await setUp(...flags);
    const kept = join(setup.dir, "kept-by-the-thief");
    const path = credsOf(setup.dir, "app-camera");
    const [app, ingress] = [await connectAs(setup, path), await connectAs(setup, credsOf(setup.dir, "ingress"))];
    copyFileSync(path, kept);
    const [cutOff, interrupted] = [closing(app), { is: false }];
    ingress.control.onStatus((status) => (interrupted.is ||= status.kind === "disconnected"));
    expect(JSON.parse((await auth(setup.dir, "revoke", "camera")).stdout)).toMatchObject({ reloaded: 1 });
    await cutOff;
    expect(await refusal(connectAs(setup, kept))).toBe("TUTTI_FORBIDDEN");

    const added = JSON.parse((await auth(setup.dir, "add-app", "robot")).stdout) as { readonly path: string };
    const robot = await comesIn(setup, added.path);
    expect(await deniedPublishing(robot, ["infer.mlp.robot", "infer.mlp.camera"])).toEqual(["infer.mlp.camera"]);

    const renewed = JSON.parse((await auth(setup.dir, "renew", "camera")).stdout) as { readonly path: string };
    await comesIn(setup, renewed.path);
    expect(await refusal(connectAs(setup, kept))).toBe("TUTTI_FORBIDDEN");
    // Servers below 2.15 have everybody connect again when an account's token changes, which takes them some 20 ms.
    expect(interrupted.is).toBe(kind === "signed tokens" && !isAtLeast(ingress.serverVersion, "2.15.0"));
    expect(ingress.control.connected).toBe(true);
  });
});

test("a role that is revoked is cut off too", async () => {
  const setup = await setUp();
  const executor = await connectAs(setup, credsOf(setup.dir, "executor"));
  const cutOff = closing(executor);
  await auth(setup.dir, "revoke", "executor");
  await cutOff;
});

test("credentials that expire end by themselves: their connection is closed, and they are refused from then on", async () => {
  const setup = await setUp("--jwt");
  const made = JSON.parse((await auth(setup.dir, "add-app", "brief", "--expires", "3s")).stdout) as { path: string };
  const brief = await connectAs(setup, made.path);
  await closing(brief);
  // The credentials end with their second, within which the server may still admit somebody.
  await expect.poll(() => refusal(connectAs(setup, made.path)), { timeout: 5_000 }).toBe("TUTTI_FORBIDDEN");
  await connectAs(setup, credsOf(setup.dir, "app-camera"));
});

test("plain text to a TLS port gets nothing, and so does whoever trusts another authority", async () => {
  const setup = await setUp("--tls");
  const ca = join(setup.dir, "tls", "ca.pem");
  const path = credsOf(setup.dir, "app-camera");
  await connectAs(setup, path, ca);
  const stranger = join(setup.dir, "stranger.pem");
  writeFileSync(stranger, (await createAuthority("stranger", 1)).certificate);
  expect(await refusal(connectAs(setup, path, stranger))).toBe("TUTTI_UNAVAILABLE");
  expect(await refusal(connectAs(setup, path))).toBe("TUTTI_UNAVAILABLE");
  const heard = await new Promise<string>((resolve) => {
    let text = "";
    const socket = connectPlain({ host: "127.0.0.1", port: Number(new URL(setup.url).port) });
    socket.on("data", (chunk) => (text += chunk.toString("latin1")));
    socket.on("error", () => undefined);
    socket.on("close", () => resolve(text));
    socket.write('CONNECT {"verbose":true}\r\nSUB > 1\r\nPING\r\n');
  });
  // The server introduces itself before the handshake, with nothing that is secret, and answers no word of plain text.
  expect(heard).toMatch(/^INFO \{.*"tls_required":true/);
  expect(heard.replace(/^INFO .*\r\n/, "")).not.toMatch(/\+OK|PONG|MSG/);
});

test("a client that wants TLS does not go on in plain text where the server has none", async () => {
  const setup = await setUp();
  const other = mkdtempSync(join(tmpdir(), "tutti-ca-"));
  ending.push(() => rmSync(other, { recursive: true, force: true }));
  const ca = join(other, "ca.pem");
  writeFileSync(ca, (await createAuthority("x", 1)).certificate);
  expect(await refusal(connectAs(setup, credsOf(setup.dir, "app-camera"), ca))).toBe("TUTTI_UNAVAILABLE");
});

test("three servers of one deployment are one cluster over TLS, and a server without its password joins nothing", async () => {
  const dir = mkdtempSync(join(tmpdir(), "tutti-auth-"));
  ending.push(() => rmSync(dir, { recursive: true, force: true }));
  const ports = await freePorts(3);
  const servers = ports.map((port, i) => ({ name: `n-${i}`, host: "127.0.0.1", port, routePort: 0 }));
  const routes = await freePorts(4);
  expect((await auth(dir, "init", "--app", "camera", "--nats-cluster", "3", "--tls")).code).toBe(0);
  // The servers get ports that are free here. A stranger, with a password and an authority of its own, knows where they
  // are.
  const placed = servers.map((server, i) => ({ ...server, routePort: routes[i]! }));
  const move = async (path: string, places: readonly object[]): Promise<string[]> => {
    const state = JSON.parse(readFileSync(join(path, "auth.json"), "utf8")) as object;
    writeFileSync(join(path, "auth.json"), JSON.stringify({ ...state, servers: places }));
    return AuthDirectory.open(path).write("all");
  };
  const running = await Promise.all((await move(dir, placed)).map(startConfigured));
  for (const server of running) ending.push(() => server.stop());
  const urls = ports.map((port) => `nats://127.0.0.1:${port}`);
  const caFile = join(dir, "tls", "ca.pem");
  const at = async (url: string, user: string): Promise<NatsConnection> => {
    const connection = await connectNats({
      servers: url,
      name: user,
      credentials: readCredentials(credsOf(dir, user)),
      tls: { caFile },
      ignoreClusterUpdates: true,
    });
    ending.push(() => connection.close());
    return connection;
  };
  const [ingress, app] = [await at(urls[0]!, "ingress"), await at(urls[2]!, "app-camera")];
  let heard = 0;
  ingress.control.subscribe("infer.*.*", () => heard++, { queue: "ingress" });
  await new Promise((resolve) => ingress.control.flush(resolve));
  await until(() => {
    app.control.publish("infer.mlp.camera", NOTHING);
    return heard > 0;
  });

  const strange = mkdtempSync(join(tmpdir(), "tutti-auth-"));
  ending.push(() => rmSync(strange, { recursive: true, force: true }));
  // The stranger is rejected even with a certificate of the right authority.
  const [cert, key] = ["nats.pem", "nats-key.pem"].map((name) => join(dir, "tls", name));
  const stolen = ["--tls-ca", caFile, "--tls-cert", cert!, "--tls-key", key!];
  expect((await auth(strange, "init", "--nats-cluster", "2", ...stolen)).code).toBe(0);
  const [own = 0] = await freePorts(1);
  const place = { name: "stranger", host: "127.0.0.1", port: own, routePort: routes[3]! };
  const [config = ""] = await move(strange, [place, placed[0]!]);
  const refused = running[0]!.line(/authentication error|Authorization Violation/i);
  const stranger = await startConfigured(config);
  ending.push(() => stranger.stop());
  expect(await refused).toMatch(/authentication error|Authorization Violation/i);
});

/**
 * Speaks to the server without a client library. @returns the server's bytes until it closes the connection or
 * `isEnough`
 */
function speak(port: number, text: string, isEnough: (said: string) => boolean = () => false): Promise<string> {
  return new Promise((resolve) => {
    let said = "";
    const socket = connectPlain({ host: "127.0.0.1", port }, () => socket.write(text));
    socket.on("data", (chunk) => {
      said += chunk.toString("latin1");
      if (isEnough(said)) socket.destroy();
    });
    socket.on("error", () => undefined);
    socket.on("close", () => resolve(said));
  });
}

describe.each([
  { kind: "public keys", flags: [] },
  { kind: "signed tokens", flags: ["--jwt"] },
])("what one client may take of a server, with $kind", ({ kind, flags }) => {
  test("subscriptions, lines, messages and time without credentials are bounded, and nobody else notices", async () => {
    const setup = await setUp(...flags);
    const port = Number(new URL(setup.url).port);
    const other = await connectAs(setup, credsOf(setup.dir, "ingress"));
    const isCalm = { is: true };
    other.control.onStatus(() => (isCalm.is = false));

    // The server disconnects a client that sends nothing, or too long a line.
    const startedAt = performance.now();
    const silent = speak(port, "").then((said) => ({ said, tookMs: performance.now() - startedAt }));
    const line = `CONNECT {"name":"${"x".repeat(64_000)}"}\r\n`;
    expect(await speak(port, line)).toMatch(/Maximum Control Line|maximum control line/i);

    const app = await connectAs(setup, credsOf(setup.dir, "app-camera"));
    const troubles: string[] = [];
    app.control.onStatus((status) => troubles.push(JSON.stringify(status)));
    const subscriptions = Array.from({ length: NATS_SUBSCRIPTIONS_MAX + 1 }, (_, i) =>
      app.control.subscribe(`_INBOX.camera.x.${i}`, () => undefined),
    );
    await expect.poll(() => troubles.join(), { timeout: 10_000 }).toMatch(/maximum subscriptions/i);
    for (const subscription of subscriptions) subscription.stop();

    const { said, tookMs } = await silent;
    expect(said).toMatch(/Authentication Timeout/i);
    expect(tookMs).toBeLessThan(15_000);
    expect(app.control.payloadMax).toBe(OUR_PAYLOAD_BYTES_MAX);
    expect([other.control.connected, isCalm.is]).toEqual([true, true]);
  });

  test("the configuration says what all clients together may take, and the server takes it without complaint", async () => {
    const { dir, server } = await setUp(...flags);
    const text = readFileSync(join(dir, "nats.conf"), "utf8");
    expect(text).toContain(`max_connections: ${NATS_CONNECTIONS_MAX}`);
    expect(text).toContain(`max_pending: ${NATS_PENDING_BYTES_MAX}`);
    if (kind === "public keys") expect(text).toContain(`max_streams: ${NATS_STREAMS_MAX}`);
    expect(server.log.filter((one) => one.includes("[ERR]"))).toEqual([]);
  });
});
