/** One thread of `npm run fuzz`. */
import { parentPort, workerData } from "node:worker_threads";
import { type FuzzJob, runSeeds } from "./fuzz-seeds.ts";

runSeeds(workerData as FuzzJob, (report) => parentPort?.postMessage(report));
