import { type Server, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { InMemoryNetwork } from "@tutti/ports/bus";
import { millis } from "@tutti/units";
import { afterEach, expect, test } from "vitest";
import { HttpTarget, modelPath, oipBody } from "./http-target.ts";
import { NatsTarget, errorOf } from "./nats-target.ts";
import type { Answer } from "./target.ts";

const X = { name: "x", type: "FP32", dims: [1, 2], data: new Uint8Array(8) } as const;
const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

test("a version of a model has a path of its own over HTTP", () => {
  expect([modelPath("mlp"), modelPath("mlp/2")]).toEqual(["/v2/models/mlp", "/v2/models/mlp/versions/2"]);
});

/** Serves answers that depend on the name of the request's application. */
async function gateway(seen: object[] = []): Promise<string> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      seen.push({ url: request.url, headers: request.headers, body: Buffer.concat(chunks) });
      const app = request.headers["tutti-app"];
      if (app === "silent") return;
      if (app === "cut") return void request.socket.destroy();
      if (app === "refused") return void response.writeHead(503).end('{"code":"TUTTI_OVERLOADED","retryAfterMs":7}');
      if (app === "proxy") return void response.writeHead(502).end("<html>bad gateway</html>");
      response.end(Buffer.alloc(100_000));
    });
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function targetAt(url: string, apps: readonly string[], connections = 8) {
  const body = oipBody([X]);
  const target = new HttpTarget({ url, streams: apps.map((app) => ({ model: "mlp", app, body })), connections });
  const answers = new Map<number, Answer>();
  let look = (): void => undefined;
  target.open((token, answer) => {
    answers.set(token, answer);
    look();
  });
  const until = (count: number): Promise<void> =>
    new Promise((resolve) => {
      look = () => void (answers.size >= count && resolve());
      look();
    });
  return { target, answers, until };
}

test("over HTTP a request is the protocol's with binary tensors, and carries its application and SLO", async () => {
  const seen: { url: string; headers: Record<string, string>; body: Buffer }[] = [];
  const { target, answers, until } = targetAt(await gateway(seen), ["web"]);
  expect(target.send({ token: 4, stream: 0, slo: millis(25) })).toBe(true);
  await until(1);
  expect(answers).toEqual(new Map([[4, { outcome: "ok", retryAfterMs: 0 }]]));
  const [{ url, headers, body }] = seen as [(typeof seen)[number]];
  expect(url).toBe("/v2/models/mlp/infer");
  expect([headers["tutti-app"], headers["tutti-slo"]]).toEqual(["web", "25000us"]);
  const json = Number(headers["inference-header-content-length"]);
  expect(JSON.parse(body.subarray(0, json).toString())).toMatchObject({
    inputs: [{ name: "x", datatype: "FP32", shape: [1, 2], parameters: { binary_data_size: 8 } }],
  });
  expect(body.byteLength - json).toBe(8);
  target.close();
});

test("refusals are told by their code, what no gateway says by its status, and what breaks by its cause", async () => {
  const apps = ["refused", "proxy", "cut"];
  const { target, answers, until } = targetAt(await gateway(), apps);
  apps.forEach((_, stream) => target.send({ token: stream, stream, slo: millis(25) }));
  await until(3);
  expect([0, 1, 2].map((token) => answers.get(token))).toEqual([
    { outcome: "TUTTI_OVERLOADED", retryAfterMs: 7 },
    { outcome: "HTTP_502", retryAfterMs: 0 },
    { outcome: "ECONNRESET", retryAfterMs: 0 },
  ]);
  target.close();
});

test("requests beyond the connections wait, are counted, and go on when one is given up", async () => {
  const { target, answers, until } = targetAt(await gateway(), ["silent", "web"], 1);
  target.send({ token: 0, stream: 0, slo: millis(25) });
  target.send({ token: 1, stream: 1, slo: millis(25) });
  expect(target.held).toBe(1);
  target.forget(0);
  await until(1);
  expect([...answers.keys()]).toEqual([1]); // the forgotten request has no answer any more
  target.close();
});

test("over NATS answers find their requests, refusals their codes, and a subject without anybody is UNAVAILABLE", async () => {
  const network = new InMemoryNetwork();
  const [ours, theirs] = [network.connect({ name: "ours" }), network.connect({ name: "theirs" })];
  const slos: (string | undefined)[] = [];
  theirs.subscribe("infer.mlp.*", (delivery) => {
    slos.push(delivery.header("Tutti-Slo"));
    const isRefused = delivery.subject.endsWith(".refused");
    const body = isRefused ? '{"code":"TUTTI_OVERLOADED","retryAfterMs":9}' : "outputs";
    const headers = isRefused ? { headers: { "Nats-Service-Error-Code": "503" } } : {};
    theirs.publish(delivery.reply!, new TextEncoder().encode(body), headers);
  });
  const payload = new Uint8Array(4);
  const streams = ["web", "refused"].map((app) => ({ bus: ours, model: "mlp", app, payload }));
  const nobody = { bus: ours, model: "other", app: "web", payload };
  const target = new NatsTarget([...streams, nobody]);
  const answers: [number, Answer][] = [];
  target.open((token, answer) => answers.push([token, answer]));
  target.send({ token: 71, stream: 0, slo: millis(25) });
  target.send({ token: 72, stream: 1, slo: millis(30) });
  target.send({ token: 73, stream: 2, slo: millis(25) });
  await new Promise((resolve) => setImmediate(resolve)); // the network in memory delivers in microtasks
  expect(answers.toSorted(([a], [b]) => a - b)).toEqual([
    [71, { outcome: "ok", retryAfterMs: 0 }],
    [72, { outcome: "TUTTI_OVERLOADED", retryAfterMs: 9 }],
    [73, { outcome: "TUTTI_UNAVAILABLE", retryAfterMs: 0 }],
  ]);
  expect(slos).toEqual(["25000us", "30000us"]);
  target.close();
});

test("a body that says anything else is the outcome that is given, and never an exception", () => {
  const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
  for (const text of ["", "{", "null", "3", '{"code":3}', '{"code":"<script>"}', `{"code":"${"A".repeat(65)}"}`])
    expect(errorOf(bytes(text), "status 500")).toEqual({ outcome: "status 500", retryAfterMs: 0 });
  expect(errorOf(bytes('{"code":"TUTTI_INTERNAL","retryAfterMs":-3}'), "x")).toEqual({
    outcome: "TUTTI_INTERNAL",
    retryAfterMs: 0,
  });
});
