export {
  type Cluster,
  type ClusterOptions,
  type RunningCluster,
  findCluster,
  isAlive,
  runRoot,
} from "./find-cluster.ts";
export { busInNameOf, openCluster, openConnection, withCluster } from "./connection.ts";
export { connectionRefused, unlessDenied } from "./refused.ts";
export { freePort, isFree, listenFailure } from "./free-port.ts";
