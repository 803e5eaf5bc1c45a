/**
 * The data plane: inputs reach executors over TCP if it connects, else over NATS. `--data-plane nats` disables TCP.
 * With an authority nothing is sent in plain text: an ingress without a certificate opens no port, and an executor
 * connects only to servers with a certificate of that authority.
 */
import { readFileSync } from "node:fs";
import type { IngressPorts } from "@tutti/ingress";
import { NatsDataClient, nearFirst, serveNats } from "@tutti/bus-nats";
import { type DataClient, type DataServer, bothServers, fallbackClient } from "@tutti/ports/pull";
import { TcpDataClient, serveTcp } from "@tutti/pull-tcp";
import type { RoleContext } from "./run-process.ts";

/**
 * Rows up to this size are pushed with their batch, through the link with the executor's process. Larger ones are
 * pulled where that is plain TCP, whose client reads them into place: the link would copy each row once more, but
 * a lone row of 150 KB is served sooner without the round trip of a pull.
 */
const PUSHED_BYTES = 524_288;

/** Listens on loopback or on every interface: executors on other hosts need a name that they can reach. */
export const serveDataPlane =
  (context: RoleContext): IngressPorts["serveData"] =>
  (handlers) => {
    const { options, config, ports } = context;
    const onFault = (text: string): void => ports.telemetry.log.warn({ fault: text }, "data plane");
    const relayed = serveNats({ bus: ports.bulk, cluster: options.cluster, key: config.key, handlers, onFault });
    const tls = tlsOf(options);
    const isPlain = tls === undefined && options.tlsCa !== undefined;
    if (isPlain && options.dataPlane === "tcp")
      ports.telemetry.log.info(
        {},
        "inputs go over NATS: --tls-cert and --tls-key would let executors connect directly",
      );
    const server: DataServer = options.dataPlane === "nats" || isPlain ? relayed : bothServers(overTcp(), relayed);
    return {
      address: () => server.address,
      pushes: (byteLength) => byteLength <= PUSHED_BYTES || server.address?.tls !== false,
      pushBatch: (batch, batcher, items) => server.pushBatch?.(batch, batcher, items) === true,
      close: (done) => server.close(done),
    };

    function overTcp(): DataServer {
      const direct = serveTcp({ key: config.key, handlers, host: options.dataHost, onFault, ...(tls && { tls }) });
      direct.listening.then(
        ({ port }) => (context.told["dataPort"] = port),
        (error: unknown) =>
          ports.telemetry.log.warn({ error: String(error) }, "the data plane has no TCP port; NATS carries it"),
      );
      return direct;
    }
  };

export function openDataPlane({ options, config, ports }: RoleContext): DataClient {
  const onFault = (text: string): void => ports.telemetry.log.warn({ fault: text }, "data plane");
  const relayed = new NatsDataClient({ bus: ports.bulk, cluster: options.cluster, key: config.key, onFault });
  if (options.dataPlane === "nats") return relayed;
  const direct = new TcpDataClient({
    key: config.key,
    onFault,
    ...(options.tlsCa !== undefined && { ca: readFileSync(options.tlsCa, "utf8") }),
  });
  const apart = fallbackClient(direct, relayed, {
    now: () => performance.now(),
    onSwitch: (ingress, way) => ports.telemetry.log.info({ ingress, way }, "inputs come another way"),
  });
  return nearFirst(relayed, apart, { bus: ports.bulk, cluster: options.cluster });
}

function tlsOf({
  tlsCert,
  tlsKey,
}: RoleContext["options"]): { readonly cert: string; readonly key: string } | undefined {
  if (tlsCert === undefined || tlsKey === undefined) return undefined;
  return { cert: readFileSync(tlsCert, "utf8"), key: readFileSync(tlsKey, "utf8") };
}
