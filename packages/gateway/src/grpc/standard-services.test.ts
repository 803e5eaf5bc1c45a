import { once } from "node:events";
import { fileURLToPath } from "node:url";
import {
  type Client,
  type ClientDuplexStream,
  type ClientReadableStream,
  Metadata,
  type ServiceClientConstructor,
  Server,
  ServerCredentials,
  type ServiceError,
  credentials,
  loadPackageDefinition,
  makeClientConstructor,
  status,
} from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { HealthImplementation, service as healthService } from "grpc-health-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { GatewayScene } from "../testing/gateway-scene.ts";
import { StandardServices } from "./standard-services.ts";

interface Health extends Client {
  check(request: object, done: (error: ServiceError | null, answer: { readonly status: string }) => void): void;
  watch(request: object): ClientReadableStream<{ readonly status: string }>;
}
interface Reflected {
  readonly listServicesResponse?: { readonly service: readonly { readonly name: string }[] };
  readonly fileDescriptorResponse?: { readonly fileDescriptorProto: readonly Uint8Array[] };
  readonly errorResponse?: { readonly errorCode: number };
}
interface Reflection extends Client {
  serverReflectionInfo(metadata: Metadata): ClientDuplexStream<object, Reflected>;
}

const REFLECTION = fileURLToPath(
  new URL("../proto/grpc/reflection/v1/reflection.proto", import.meta.resolve("@grpc/reflection")),
);
const reflectionService = (
  loadPackageDefinition(loadSync(REFLECTION)) as unknown as {
    readonly grpc: { readonly reflection: { readonly v1: { readonly ServerReflection: ServiceClientConstructor } } };
  }
).grpc.reflection.v1.ServerReflection;

let scene: GatewayScene;
let health: Health;
let reflection: Reflection;
beforeEach(async () => {
  scene = await GatewayScene.open();
  const plain = credentials.createInsecure();
  const { grpc } = scene.addresses;
  health = new (makeClientConstructor(healthService, "Health"))(grpc, plain) as unknown as Health;
  reflection = new reflectionService(grpc, plain) as unknown as Reflection;
});
afterEach(async () => {
  health.close();
  reflection.close();
  await scene.close();
});

const check = (service: string): Promise<string> =>
  new Promise((resolve, reject) =>
    health.check({ service }, (error, answer) => (error === null ? resolve(answer.status) : reject(error))),
  );

test("the health of the server and of the service is their readiness, liveness is apart, and others are unknown", async () => {
  const names = ["", "inference.GRPCInferenceService", "liveness"];
  expect(await Promise.all(names.map(check))).toEqual(["NOT_SERVING", "NOT_SERVING", "SERVING"]);
  scene.populate();
  while ((await check("")) !== "SERVING");
  expect(await Promise.all(names.map(check))).toEqual(["SERVING", "SERVING", "SERVING"]);
  await expect(check("nobody")).rejects.toMatchObject({ code: status.NOT_FOUND });
});

test("a watcher of the health is told once of each change", async () => {
  const watch = health.watch({ service: "" });
  const told: string[] = [];
  const next = (): Promise<void> =>
    once(watch, "data").then(([answer]) => void told.push((answer as { status: string }).status));
  await next();
  scene.populate();
  await next();
  await Promise.all([check(""), check("")]);
  expect(told).toEqual(["NOT_SERVING", "SERVING"]);
  watch.on("error", () => undefined); // cancelled here
  watch.cancel();
});

test("a watcher of an unknown service is told so, and its name is not remembered (T7)", async () => {
  const kept = new HealthImplementation();
  const spied = vi.spyOn(Object.getPrototypeOf(kept) as { addWatcher: () => void }, "addWatcher");
  const call = health.watch({ service: "no-such-service" });
  call.on("error", () => undefined); // it is cancelled below
  const [answer] = (await once(call, "data")) as [{ readonly status: string }];
  expect(answer.status).toBe("SERVICE_UNKNOWN");
  expect(spied).not.toHaveBeenCalled();
  call.cancel();
  spied.mockRestore();
});

test("reflection lists the services, and describes a message by any name within it", async () => {
  const stream = reflection.serverReflectionInfo(new Metadata());
  const ask = async (request: object): Promise<Reflected> => {
    stream.write(request);
    const [answer] = (await once(stream, "data")) as [Reflected];
    return answer;
  };
  const { listServicesResponse: listed } = await ask({ listServices: "*" });
  expect(listed?.service.map(({ name }) => name).sort()).toEqual([
    "grpc.health.v1.Health",
    "inference.GRPCInferenceService",
  ]);
  const { fileDescriptorResponse: file } = await ask({
    fileContainingSymbol: "inference.GRPCInferenceService.ModelInfer",
  });
  const described = Buffer.from(file!.fileDescriptorProto[0]!);
  // Clients in Go refuse a map whose entries are not named as protoc names them.
  for (const name of ["ModelInferRequest", "model_name", "ParametersEntry"])
    expect(described.includes(name), name).toBe(true);
  expect((await ask({ fileContainingSymbol: "nobody.Has" })).errorResponse?.errorCode).toBe(status.NOT_FOUND);
  stream.end();
  await once(stream, "end");
});

test("a client that reads no answers of reflection is read no further", async () => {
  let answered = 0;
  const server = new Server();
  const parts = { protocol: {}, service: "none", isReady: () => true, onAsked: () => undefined };
  const services = new StandardServices({ ...parts, onAnswered: () => answered++ });
  services.addTo(server);
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    ),
  );
  const client = new reflectionService(`127.0.0.1:${port}`, credentials.createInsecure()) as unknown as Reflection;
  const stream = client.serverReflectionInfo(new Metadata());
  const request = { fileContainingSymbol: "x".repeat(8_000) }; // returned with the answer
  for (let i = 0; i < 3_750; i++) stream.write(request);
  // Before its first answer the client takes whatever comes.
  stream.once("data", () => stream.pause());
  for (let [before, same] = [0, 0]; answered === 0 || same < 50; await check("liveness")) {
    same = answered === before ? same + 1 : 0;
    before = answered;
  }
  expect(answered).toBeLessThan(750);
  stream.on("data", () => undefined).resume();
  stream.end();
  await once(stream, "end");
  expect(answered).toBe(3_750);
  client.close();
  services.close();
  server.forceShutdown();
});

test("a request longer than any of these services needs is refused before it is decoded", async () => {
  await expect(check("x".repeat(9_000))).rejects.toThrow("GRPC_SHORT_BYTES_MAX");
});
