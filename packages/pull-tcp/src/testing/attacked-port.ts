/** An ingress' port in a process of its own, which tells how far its memory has grown: `fork` it. */
import { actorKey } from "@tutti/units";
import { serveTcp } from "../index.ts";

const SAMPLE_MS = 5;

const faults: string[] = [];
const server = serveTcp({
  key: actorKey(Number(process.argv[2])),
  handlers: { onPull: (_, reply) => reply([]), onResults: () => undefined },
  onFault: (text) => faults.push(text),
});
const address = await server.listening;
const before = process.memoryUsage.rss();
let highest = before;
setInterval(() => (highest = Math.max(highest, process.memoryUsage.rss())), SAMPLE_MS);
process.on("message", () => process.send?.({ grownBytes: highest - before, faults, count: server.figures.faults }));
process.on("disconnect", () => process.exit(0));
process.send?.({ address });
