import { type Actor, type ActorConfig, type ActorPorts, Station } from "@tutti/actors";
import type { Role } from "@tutti/protocol";

/**
 * An actor that is there and does nothing yet: it beats, answers `$SRV`, reports, and hears the others. The planner is one until planning comes;
 * serving does not need it (docs/architecture.md, 4).
 */
export function createBystander(role: Role, ports: ActorPorts, config: ActorConfig, ready: () => void): Actor {
  const station: Station = new Station(ports, config, {
    role,
    listensTo: ["executor"],
    stats: () => {
      const executors = [...station.directory.ofRole("executor")];
      const gpus = executors.reduce((count, peer) => count + (peer.gpus?.length ?? 0), 0);
      return { figures: { executors: executors.length, gpus } };
    },
  });
  station.open();
  ports.bus.flush(() => ready());
  return { role, key: config.key, drain: (done) => station.close(done) };
}
