export {
  type Cluster,
  type ClusterOptions,
  type RunningCluster,
  findCluster,
  isAlive,
  runRoot,
} from "./find-cluster.ts";
export { openConnection, withCluster } from "./connection.ts";
export { freePort, isFree } from "./free-port.ts";
