/**
 * A spare succeeds the leader of a cluster that isn't there: a ranker that only yields, an executor and a batcher that
 * only answer, on a bus and a store in memory. What a takeover runs has then been compiled before the first takeover
 * that matters; cold it took some 10 ms between the lease and the first grant.
 *
 *   RH1. What V8 compiled for one kind of object or number it throws away when another comes, which is when it matters.
 *        So the clock is the spare's own, and keys, instants and heartbeats are such as there are in a cluster.
 */
import { InMemoryNetwork } from "@tutti/ports/bus";
import type { Clock } from "@tutti/ports/clock";
import { BUCKET, leaseKeys } from "@tutti/protocol";
import { InMemoryStore } from "@tutti/ports/store";
import { noTelemetry } from "@tutti/ports/telemetry";
import { after, millis, seconds } from "@tutti/units";
import { toJson } from "@tutti/wire";
import type { Actor, ActorConfig, ActorPorts } from "../ports.ts";
import { WarmupPeers } from "./warmup-peers.ts";

const CLUSTER = "warmup";
const BEAT_EVERY = millis(10);
/** It ends, whatever happens. */
const WITHIN = seconds(5);

export interface WarmupLead {
  readonly clock: Clock;
  /** Of the ranker. */
  readonly subCluster: string;
  /** Makes the ranker that takes the lead. */
  readonly create: (ports: ActorPorts, config: ActorConfig, ready: () => void) => Actor;
  /** Whether there is still time for it. */
  readonly goesOn: () => boolean;
  /** How many it gives. */
  readonly grants: number;
}

/**
 * Message by message, a turn of the event loop for each, so that nothing real has to wait for it.
 *
 * @param done - called with the grants that were given
 */
export function warmUpLead(
  { clock, subCluster, create, goesOn, grants }: WarmupLead,
  done: (given: number) => void,
): void {
  const hop = (run: () => void): void => clock.endOfTurn(run);
  const network = new InMemoryNetwork({ deliver: hop, later: hop, startTimer: () => ({ stop: () => undefined }) });
  const peers = new WarmupPeers({
    bus: network.connect({ name: "peers" }),
    clock,
    cluster: CLUSTER,
    subCluster,
    grantsMax: grants,
  });
  const store = new InMemoryStore({ deliver: hop });
  store.put(BUCKET.leases, leaseKeys.ranker(subCluster), toJson({ ranker: peers.leader }), () => undefined);
  const ports: ActorPorts = {
    bus: network.connect({ name: "ranker" }),
    bulk: network.connect({ name: "ranker-bulk" }),
    store,
    clock,
    telemetry: noTelemetry,
    randomBytes: (count) => new Uint8Array(count),
  };
  const config = { cluster: CLUSTER, host: "nowhere", pid: 0, heartbeatEvery: millis(100), peerTimeout: seconds(1) };
  const endAt = after(clock.now(), WITHIN);
  const ranker = create(ports, { key: peers.ranker, ...config }, () => undefined);
  const beating = clock.every(BEAT_EVERY, () => {
    if (goesOn() && peers.grants < grants && clock.now() < endAt) return peers.beat();
    beating.stop();
    peers.leave();
    ranker.drain(() => done(peers.grants));
  });
}
