import { readFileSync } from "node:fs";
import { connectNats, readCredentials } from "@tutti/bus-nats";
import { type StartRole } from "@tutti/host/role";
import { type PortWish, checkToken, createGateway } from "@tutti/gateway";

const wish = (port: number | undefined, preferred: number): PortWish => (port === undefined ? { preferred } : { port });

export const start: StartRole = async ({ ports, config, options, told, fail }, ready) => {
  const { adminToken, repositoryCreds, nats, tlsCa, apiKeys, jwt } = options;
  // Credentials for the repository and for restarts from the console only. Everything else uses the gateway's own
  // permissions, which are few.
  const operator =
    repositoryCreds === undefined
      ? undefined
      : await connectNats({
          servers: nats,
          name: "tutti-gateway-repository",
          credentials: readCredentials(repositoryCreds),
          ...(tlsCa !== undefined && { tls: { caFile: tlsCa } }),
        });
  return createGateway(
    {
      ...ports,
      ...(operator !== undefined && {
        repositoryStore: operator.store,
        operator: { bus: operator.control, store: operator.store },
      }),
      onListening: (where) => {
        if (where instanceof Error) fail(`can't listen: ${where.message}; choose another port or --http-host`);
        else Object.assign(told, where);
      },
    },
    {
      ...config,
      awaitModels: options.awaitModels,
      httpHost: options.httpHost,
      http: wish(options.httpPort, 8000),
      grpc: wish(options.grpcPort, 8001),
      metrics: wish(options.metricsPort, 8002),
      metricsHost: options.metricsHost,
      allowedHosts: options.allowedHosts,
      systemSharedMemory: options.systemSharedMemory,
      traceQuery: options.traceQuery,
      tls: options.httpTls,
      access: apiKeys === undefined && jwt === undefined ? undefined : { apiKeys, jwt },
      adminToken: adminToken === undefined ? undefined : checkToken(readFileSync(adminToken, "utf8")),
    },
    ready,
  );
};
