/**
 * A flood from a process of its own: `node generator.ts <nats url> <plan as JSON>`. It prints a line when each phase
 * begins, and its report.
 */
import { connectNats } from "@tutti/bus-nats";
import { NodeClock } from "@tutti/node/clock";
import { Flood, type FloodPlan } from "./flood.ts";

const [url = "", plan = "{}"] = process.argv.slice(2);
const clock = new NodeClock();
await clock.ready();
const connections = await connectNats({ servers: url, name: "flood" });
const flood = new Flood(connections.control, clock, JSON.parse(plan) as FloodPlan);
const report = await flood.run((phase) => void process.stdout.write(`${JSON.stringify({ phase })}\n`));
process.stdout.write(`${JSON.stringify({ report })}\n`);
await connections.close();
clock.close();
