import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { checkGatewayPorts } from "./gateway-ports.ts";

async function taken(host: string): Promise<number> {
  const server = createServer().listen(0, host);
  onTestFinished(() => void server.close());
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

test("a port of the gateway that is taken is refused by its flag, with what to do", async () => {
  const port = await taken("127.0.0.1");
  for (const flag of ["--http-port", "--grpc-port", "--metrics-port"])
    await expect(checkGatewayPorts({ gateway: [flag, String(port)], gatewayAccess: [] })).rejects.toMatchObject({
      message: `port ${port} is taken: name another with ${flag} (0: any)`,
      exitCode: 1,
    });
  const onAll = checkGatewayPorts({
    gateway: ["--http-port", String(port)],
    gatewayAccess: ["--http-host", "0.0.0.0"],
  });
  await expect(onAll).rejects.toThrow("is taken");
});

test("a port is looked for where the gateway would open it, and two of one number are refused", async () => {
  const port = String(await taken("127.0.0.1"));
  await checkGatewayPorts({ gateway: ["--grpc-port", port], gatewayAccess: ["--http-host", "127.0.0.2"] });
  await checkGatewayPorts({ gateway: ["--http-port", "0", "--grpc-port", "0"], gatewayAccess: [] });
  await checkGatewayPorts({ gateway: [], gatewayAccess: [] });
  const twice = checkGatewayPorts({
    gateway: ["--http-port", port, "--metrics-port", port],
    gatewayAccess: ["--http-host", "127.0.0.2"],
  });
  await expect(twice).rejects.toMatchObject({
    message: `--http-port and --metrics-port are both ${port}: name another for one of them`,
    exitCode: 2,
  });
});
