/**
 * Several planners and profilers, as several nodes have them: one of each is active
 * (packages/actors/src/runtime/duty.ts).
 */
import { BUCKET, ScalingAdvised, subjectsOf } from "@tutti/protocol";
import { type ActorKey, millis, seconds } from "@tutti/units";
import { FrameReader } from "@tutti/wire";
import { expect, test } from "vitest";
import { VirtualCluster } from "./virtual-cluster.ts";

const MODEL = { alphaMs: 1, betaMs: 4, sloMs: 50 };

test("of two planners one advises, and the other goes on within a second of its death", () => {
  const cluster = new VirtualCluster();
  const advisers: ActorKey[] = [];
  const reader = new FrameReader().on(ScalingAdvised, (_, sender) => void advisers.push(sender));
  cluster.network
    .connect({ name: "listener" })
    .subscribe(subjectsOf("main").advice, ({ payload }) => void reader.read(payload));
  for (const name of ["planner-0", "planner-1"]) cluster.startPlanner(name, { epoch: seconds(10) });
  const keyOf = (name: string): ActorKey => cluster.running.get(name)!.actor.key;
  cluster.run(seconds(8));
  expect(advisers.length).toBeGreaterThanOrEqual(4);
  expect(new Set(advisers)).toEqual(new Set([keyOf("planner-0")]));
  cluster.kill("planner-0");
  advisers.length = 0;
  cluster.run(millis(1_200));
  expect(new Set(advisers)).toEqual(new Set([keyOf("planner-1")]));
});

test("of two profilers one stores what it has found out, and the other goes on after its death", () => {
  const cluster = new VirtualCluster();
  const stored: string[] = [];
  const nothing = (): void => undefined;
  const onEntry = ({ key }: { readonly key: string }): void => void stored.push(key);
  cluster.store.watch(BUCKET.profiles, "", { onEntry, onDelete: nothing, onReady: nothing, onFailure: nothing });
  cluster.startProfiler("profiler-1");
  cluster.run(seconds(1));
  cluster.addModel({ name: "first", ...MODEL });
  cluster.run(seconds(2));
  expect(stored.filter((key) => key === "first")).toHaveLength(1);
  cluster.kill("profiler");
  cluster.addModel({ name: "second", ...MODEL });
  cluster.run(seconds(2));
  expect(stored.filter((key) => key === "second")).toHaveLength(1);
  const asked = cluster.load("second", { rate: 100, duration: millis(100), sloMs: 50 });
  cluster.run(millis(200));
  expect(asked.map(({ outcomes }) => outcomes.map(({ status }) => status).join())).toEqual(asked.map(() => "ok"));
});
