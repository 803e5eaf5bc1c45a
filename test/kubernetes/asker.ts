/**
 * The load, in a pod of the cluster: it loads models, asks them over the gateway's service and over NATS, and judges
 * the answers. Commands come by standard input and replies leave by standard output, each a line of JSON.
 */
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { desiredModel } from "@tutti/admin/models";
import { connectNats } from "@tutti/bus-nats";
import { ModelRegistry } from "@tutti/client/registries";
import { ChaosLoad } from "../e2e/chaos/load.ts";
import { MODELS, WIDTH, echoModelBytes } from "../e2e/chaos/models.ts";
import type { ChaosRecord, Strike } from "../e2e/chaos/record.ts";
import { reportText } from "../e2e/chaos/report-text.ts";
import { failuresOf, judge } from "../e2e/chaos/verdict.ts";
import { type AskerCommand, type AskerReply, GRACE_MS, PER_SECOND, SHARE_MIN, SLO_MS } from "./commands.ts";

const SERVED_MS = 120_000;
const POLL_MS = 50;

const { values } = parseArgs({
  options: { nats: { type: "string", default: "" }, gateway: { type: "string", default: "" } },
});
const nats = await connectNats({ servers: values.nats.split(","), name: "outside", ignoreClusterUpdates: true });
const strikes: Strike[] = [];
let startedMs = 0;
// A service sends each connection to some node: where one ends, the next connection finds another.
const service = { name: "service", url: values.gateway };
const load = new ChaosLoad(nats.bulk, {
  ...{ perSecond: PER_SECOND, seed: 7_000, sloMs: SLO_MS },
  gateways: () => [service, service],
});

for await (const line of createInterface({ input: process.stdin })) {
  const reply = await obey(JSON.parse(line) as AskerCommand).catch((error: unknown) => ({ error: String(error) }));
  console.log(JSON.stringify(reply));
}
await nats.close();

async function obey(command: AskerCommand): Promise<AskerReply> {
  switch (command.op) {
    case "load-models":
      await loadModels();
      return {};
    case "start":
      startedMs = performance.now();
      load.start();
      return {};
    case "strike": {
      const { name, role, signal } = command;
      const atMs = performance.now();
      strikes.push({ atMs, name, role, signal, backMs: undefined, leading: false, alone: false, actor: undefined });
      return {};
    }
    case "back":
      strikes.at(-1)!.backMs = performance.now();
      return {};
    case "good":
      await goodFor(command.ms);
      return {};
    case "end":
      return verdict();
  }
}

async function loadModels(): Promise<void> {
  const registry = new ModelRegistry(nats.store);
  const bytes = echoModelBytes(WIDTH);
  for (const name of MODELS) {
    const config = { serving: { name, slo: `${SLO_MS}ms`, max_batch_size: 8 }, latencies: undefined };
    const spec = await registry.publish(desiredModel(bytes, config), { model: bytes });
    await registry.waitUntilServed(spec, { timeoutMs: SERVED_MS });
  }
}

/** Resolves when requests of every model that were sent so much later than now are answered well. */
async function goodFor(ms: number): Promise<void> {
  const sinceMs = performance.now() + ms;
  const wanted = PER_SECOND / 2 / MODELS.length;
  const isGood = (model: string): boolean =>
    load.requests.filter((one) => one.model === model && one.sentMs >= sinceMs && one.answers[0]?.status === "ok")
      .length > wanted;
  while (!MODELS.every(isGood)) {
    if (performance.now() > sinceMs + SERVED_MS) throw new Error(`not served: ${MODELS.filter((one) => !isGood(one))}`);
    await pass(POLL_MS);
  }
}

async function verdict(): Promise<AskerReply> {
  load.stop();
  const endedMs = performance.now();
  await pass(SLO_MS + GRACE_MS); // any answer that is still to come must come in this silence
  const record: ChaosRecord = {
    ...{ seed: 7_000, layout: { kind: "node", nodes: 2, natsServers: 3 }, startedMs, endedMs },
    ...{ requests: load.requests, strikes, takers: new Map(), counted: new Map(), lagMsMax: load.lagMsMax },
  };
  const found = judge(record, GRACE_MS);
  return { sent: found.sent, failures: failuresOf(found, SHARE_MIN), text: reportText(record, found) };
}

function pass(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
