/** How inputs reach executors: over TCP where it connects, over NATS everywhere else; `--data-plane nats` leaves TCP out. */
import type { IngressPorts } from "@tutti/actors";
import { NatsDataClient, serveNats } from "@tutti/bus-nats";
import { type DataClient, type DataServer, bothServers, fallbackClient } from "@tutti/pull";
import { TcpDataClient, serveTcp } from "@tutti/pull-tcp";
import type { RoleContext } from "./run-role.ts";

/** Loopback interfaces, and every interface: executors on other hosts need a name that they can reach. */
export const serveDataPlane =
  (context: RoleContext): IngressPorts["serveData"] =>
  (handlers) => {
    const { nats, options, config, ports } = context;
    const onFault = (text: string): void => ports.telemetry.log.warn({ fault: text }, "data plane");
    const relayed = serveNats({ bus: nats.bulk, cluster: options.cluster, key: config.key, handlers, onFault });
    const server: DataServer = options.dataPlane === "nats" ? relayed : bothServers(overTcp(), relayed);
    return { address: () => server.address, close: (done) => server.close(done) };

    function overTcp(): DataServer {
      const direct = serveTcp({ key: config.key, handlers, host: options.dataHost, onFault });
      direct.listening.then(
        ({ port }) => (context.told["dataPort"] = port),
        (error: unknown) =>
          ports.telemetry.log.warn({ error: String(error) }, "the data plane has no TCP port; NATS carries it"),
      );
      return direct;
    }
  };

export function openDataPlane({ nats, options, config, ports }: RoleContext): DataClient {
  const onFault = (text: string): void => ports.telemetry.log.warn({ fault: text }, "data plane");
  const relayed = new NatsDataClient({ bus: nats.bulk, cluster: options.cluster, key: config.key, onFault });
  if (options.dataPlane === "nats") return relayed;
  const direct = new TcpDataClient({ key: config.key, onFault });
  return fallbackClient(direct, relayed, {
    now: () => performance.now(),
    onSwitch: (ingress, way) => ports.telemetry.log.info({ ingress, way }, "inputs come another way"),
  });
}
