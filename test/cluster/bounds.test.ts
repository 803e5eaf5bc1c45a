/** A batcher serves on when a stranger on the bus exceeds its bounds (docs/limits.md, T7). */
import { IngressIntroduced, RequestArrived, subjectsOf } from "@tutti/protocol";
import { actorKey, after, millis, seconds, threadId } from "@tutti/units";
import { FrameWriter } from "@tutti/wire";
import { expect, test } from "vitest";
import { VirtualCluster } from "./virtual-cluster.ts";

const EARLY_MAX = 4_096;
const SECRETS_MAX = 1_024;

function serving() {
  const cluster = new VirtualCluster({ gpus: 2 });
  cluster.addModel({ name: "m", alphaMs: 1, betaMs: 5, sloMs: 50 });
  cluster.run(seconds(2));
  const stranger = cluster.network.connect({ name: "stranger" });
  const batcher = cluster.running.get("batcher-0")!.actor.key;
  const send = (writer: FrameWriter): void => void stranger.publish(subjectsOf("main").actor(batcher), writer.take());
  const serves = (): void => {
    const asked = cluster.load("m", { rate: 200, duration: millis(500), sloMs: 50 });
    cluster.run(millis(200));
    for (const one of asked) expect(one.outcomes.map(({ status }) => status)).toEqual(["ok"]);
  };
  return { cluster, send, serves };
}

test("arrivals for models that a batcher doesn't have are kept up to a bound, and it serves on", () => {
  const { cluster, send, serves } = serving();
  const now = cluster.clock.now();
  const writer = new FrameWriter(actorKey(77));
  for (let i = 1; i <= 2 * EARLY_MAX; i++) {
    const times = { arrivedAt: now, deadline: after(now, seconds(60)), slo: seconds(60) };
    const ids = { thread: threadId(900, 0), app: 1, term: 1, arrivalSeq: i, seq: i as never };
    writer.add(RequestArrived, { ...ids, ...times, size: 0, priority: 0, units: 0 });
    if (i % 512 === 0) send(writer);
  }
  cluster.run(millis(10));
  serves();
});

test("more ingresses than a batcher keeps the secrets of may introduce themselves, and the one that sends is heard", () => {
  const { cluster, send, serves } = serving();
  for (let i = 1; i <= 2 * SECRETS_MAX; i++) {
    const ingress = actorKey(500_000 + i);
    const writer = new FrameWriter(ingress);
    writer.add(IngressIntroduced, { ingress, secret: new Uint8Array(32), respond: millis(1) });
    send(writer);
    if (i % 256 === 0) cluster.run(millis(1));
  }
  // A living ingress introduces itself every second, and whenever its pulls are refused.
  cluster.run(seconds(2));
  serves();
});
