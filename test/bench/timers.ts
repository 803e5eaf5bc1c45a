/**
 * Measures how precisely alarms fire on this machine, and their cost: `node test/bench/timers.ts [--json] [--fires n]`.
 * Cases: alone; beside jobs of 60 µs, five thousand a second; setTimeout, to compare.
 */
import { NodeClock } from "@tutti/node/clock";
import { after, micros } from "@tutti/units";
import { loadavg } from "node:os";
import { parseArgs } from "node:util";
import { Worker } from "node:worker_threads";

const { values } = parseArgs({ options: { json: { type: "boolean" }, fires: { type: "string", default: "2000" } } });
const FIRES = Number(values.fires);
const WARM_UP = Math.min(200, FIRES);

const clock = new NodeClock();
const holdsOpen = setInterval(() => undefined, 1_000);
await clock.ready();

type FireAfter = (delayUs: number, fire: () => void) => void;
const byAlarm = (): FireAfter => {
  let then: () => void = () => undefined;
  const alarm = clock.alarm(() => then());
  return (delayUs, fire) => {
    then = fire;
    alarm.set(after(clock.now(), micros(delayUs)));
  };
};
const byTimeout = (): FireAfter => (delayUs, fire) => void setTimeout(fire, Math.ceil(delayUs / 1_000));

/** Delays of 0.3 to 6 ms, one alarm after the other: about 320 fires a second. */
function latenesses(count: number, fireAfter: FireAfter): Promise<number[]> {
  const late: number[] = [];
  return new Promise((done) => {
    const next = (): void => {
      const delay = 300 + ((late.length * 7_919) % 5_700);
      const target = clock.now() + delay;
      fireAfter(delay, () => {
        late.push(clock.now() - target);
        if (late.length < count) next();
        else done(late);
      });
    };
    next();
  });
}

/** Another thread asks for a job of 60 µs every 200 µs, as messages would. */
function startJobs(): () => void {
  const asker = new Worker(ASK, { eval: true });
  asker.on("message", spin60);
  return () => void asker.terminate();
}
const ASK = `const { parentPort } = require("node:worker_threads");
const word = new Int32Array(new SharedArrayBuffer(4));
for (;;) { Atomics.wait(word, 0, 0, 0.15); parentPort.postMessage(0); }`;
function spin60(): void {
  const end = process.hrtime.bigint() + 60_000n;
  while (process.hrtime.bigint() < end);
}

async function measure(name: string, fireAfter: FireAfter) {
  await latenesses(WARM_UP, fireAfter);
  const [cpu, start] = [process.cpuUsage(), performance.now()];
  const late = (await latenesses(FIRES, fireAfter)).sort((a, b) => a - b);
  const { user, system } = process.cpuUsage(cpu);
  const seconds = (performance.now() - start) / 1_000;
  const at = (q: number): number => late[Math.min(late.length - 1, Math.floor(late.length * q))] ?? NaN;
  return {
    name,
    fires: late.length,
    firesPerSecond: Math.round(late.length / seconds),
    within100us: late.filter((lateness) => lateness <= 100).length / late.length,
    p50Us: at(0.5),
    p90Us: at(0.9),
    p99Us: at(0.99),
    maxUs: at(1),
    cpuShare: Number(((user + system) / 1e6 / seconds).toFixed(4)),
  };
}

const cases = [await measure("alarm", byAlarm())];
const stopJobs = startJobs();
cases.push(await measure("alarm beside jobs", byAlarm()));
stopJobs();
cases.push(await measure("setTimeout", byTimeout()));
const report = { loadAverage: loadavg()[0], goal: { within100us: 0.98 }, cases, ...clock.latenessReport() };
clock.close();
clearInterval(holdsOpen);
if (values.json === true) console.log(JSON.stringify(report));
else {
  console.table(cases);
  console.log(`load average ${report.loadAverage?.toFixed(1)}; guard ${report.guard} µs`);
}
