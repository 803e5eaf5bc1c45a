import { get } from "node:http";
import { afterEach, expect, test } from "vitest";
import type { GatewayConfig } from "../gateway.ts";
import { GatewayScene } from "../testing/gateway-scene.ts";

let scene: GatewayScene;
afterEach(() => scene.close());
const opened = async (config: Partial<GatewayConfig> = {}): Promise<void> => {
  scene = await GatewayScene.open(config);
};
/** As `fetch`, which sets Host itself. */
const ask = (port: "http" | "metrics", path: string, headers: Record<string, string>): Promise<number> =>
  new Promise((resolve, reject) => {
    get({ port: new URL(scene.addresses[port]).port, host: "127.0.0.1", path, headers }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    }).on("error", reject);
  });
const PATHS = [
  ["http", "/v2/health/live"],
  ["http", "/v2/models/twice"],
  ["http", "/"],
  ["metrics", "/metrics"],
  ["metrics", "/v2/health/live"],
] as const;

test("on loopback a name that somebody points here opens no path of HTTP or metrics (PG1)", async () => {
  await opened();
  for (const [port, path] of PATHS) {
    for (const host of ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example"])
      expect(await ask(port, path, { host }), `${path} as "${host}"`).toBe(403);
    for (const host of ["127.0.0.1:8000", "localhost", "tutti.localhost:1", "[::1]:8000", "10.1.2.3"])
      expect([200, 404]).toContain(await ask(port, path, { host }));
  }
});

test("names that it was given open it, and elsewhere than on loopback any does until there are some (PG1)", async () => {
  await opened({ allowedHosts: ["tutti.example.org"] });
  expect(await ask("http", "/v2/health/live", { host: "Tutti.Example.ORG:8000" })).toBe(200);
  expect(await ask("metrics", "/metrics", { host: "tutti.example.org" })).toBe(200);
  expect(await ask("http", "/v2/health/live", { host: "other.example.org" })).toBe(403);
  await scene.close();
  await opened({ httpHost: "0.0.0.0", metricsHost: "0.0.0.0" });
  expect(await ask("http", "/v2/health/live", { host: "anything.example" })).toBe(200);
  await scene.close();
  await opened({ httpHost: "0.0.0.0", allowedHosts: ["tutti.example.org"] });
  expect(await ask("http", "/v2/health/live", { host: "anything.example" })).toBe(403);
});

test("what another site's page asks is refused, whether or not its browser sends an Origin (PG2)", async () => {
  await opened();
  for (const [port, path] of PATHS) {
    expect(await ask(port, path, { origin: "https://evil.example" })).toBe(403);
    expect(await ask(port, path, { "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors" })).toBe(403);
    expect(await ask(port, path, { "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors" })).not.toBe(403);
  }
});
