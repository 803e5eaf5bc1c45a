import type { ExecutorInventory, Heartbeat } from "@tutti/protocol";
import { type ActorKey, type GpuId, after, gpuId, instant, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import type { PeerRegistry } from "../runtime/peer-registry.ts";
import { ClusterState } from "./cluster-state.ts";

const START = instant(1_000_000_000);
const inventory = (executor: number, gpu: number): ExecutorInventory => ({
  ...{ executor: executor as ActorKey, gpus: [gpuId(gpu)], type: "emulated", subCluster: "main" },
  ...{ memoryBytes: 10, memoryBytesMax: 100, models: [{ number: 1, version: "1", memoryBytes: 10 }] },
});
/** A registry in which these executors live. */
const living = (...keys: readonly number[]): PeerRegistry =>
  ({ get: (key: ActorKey) => (keys.includes(key) ? ({ key } as Heartbeat) : undefined) }) as PeerRegistry;
const placement = { epoch: 1, madeAt: START, models: [], gpus: [{ gpu: gpuId(0), subCluster: "main" }] };
const present = (cluster: ClusterState, ...keys: readonly number[]): GpuId[] =>
  cluster.executors(living(...keys)).flatMap(({ gpus }) => gpus);

test("an executor that is heard again has what it had, and is awaited from its next loss on", () => {
  const cluster = new ClusterState(START);
  cluster.hearInventory(inventory(7, 0));
  cluster.lose(7 as ActorKey, START);
  expect(present(cluster)).toEqual([]);
  expect([...cluster.awaited(placement, after(START, seconds(1)), seconds(2))]).toEqual([0]);
  const later = after(START, seconds(5));
  expect([cluster.rejoin(7 as ActorKey), cluster.rejoin(7 as ActorKey)]).toEqual([true, false]);
  expect([present(cluster, 7), [...cluster.awaited(placement, later, seconds(2))]]).toEqual([[0], []]);
  cluster.lose(7 as ActorKey, later);
  expect([...cluster.awaited(placement, after(later, seconds(1)), seconds(2))]).toEqual([0]);
  expect([...cluster.awaited(placement, after(later, seconds(3)), seconds(2))]).toEqual([]);
});

test("a lost executor whose accelerator another has by now doesn't count, though it is heard again", () => {
  const cluster = new ClusterState(START);
  cluster.hearInventory(inventory(7, 0));
  cluster.lose(7 as ActorKey, START);
  cluster.hearInventory(inventory(8, 0));
  expect(cluster.rejoin(7 as ActorKey)).toBe(false);
  expect(cluster.executors(living(7, 8)).map(({ key }) => key)).toEqual([8]);
});
