/**
 * Warms up the code of a takeover: a spare succeeds the leader of a simulated cluster. That consists of a ranker that
 * only yields, an executor and a batcher that only answer, on a bus and a store in memory. The code is then compiled
 * before the first real takeover; cold it took some 10 ms between the lease and the first grant.
 *
 *   RH1. V8 deoptimises on new object shapes and kinds of numbers, which would happen in the real takeover. So the
 *        clock is the spare's own, and keys, instants and heartbeats are like those of a cluster.
 */
import { InMemoryNetwork } from "@tutti/ports/bus";
import type { Clock } from "@tutti/ports/clock";
import { BUCKET, RankerLease, leaseKeys } from "@tutti/protocol";
import { InMemoryStore } from "@tutti/ports/store";
import { noTelemetry } from "@tutti/ports/telemetry";
import { after, millis, seconds } from "@tutti/units";
import { writeStored } from "@tutti/wire";
import type { Actor, ActorConfig, ActorPorts } from "../../runtime/ports.ts";
import { WarmupPeers } from "./warmup-peers.ts";

const CLUSTER = "warmup";
const BEAT_EVERY = millis(10);
/** Longest duration of a warm-up. */
const WITHIN = seconds(5);

export interface WarmupLead {
  readonly clock: Clock;
  /** The ranker's sub-cluster. */
  readonly subCluster: string;
  /** Makes the ranker that takes the lead. */
  readonly create: (ports: ActorPorts, config: ActorConfig, ready: () => void) => Actor;
  /** Whether there is still time for it. */
  readonly goesOn: () => boolean;
  /** Number of grants that it gives. */
  readonly grants: number;
}

/**
 * Runs one warm-up, with a turn of the event loop for each message, so that no real work waits.
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
  store.put(
    BUCKET.leases,
    leaseKeys.ranker(subCluster),
    writeStored(RankerLease, { ranker: peers.leader }),
    () => undefined,
  );
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
