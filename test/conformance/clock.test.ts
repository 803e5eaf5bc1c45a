import { VirtualClock } from "@tutti/ports/clock";
import { NodeClock } from "@tutti/node/clock";
import { after } from "@tutti/units";
import { type ClockUnderTest, UNTIL_MAX, clockConformance } from "./clock.suite.ts";

clockConformance("virtual clock", () => {
  const clock = new VirtualClock();
  const until = (done: () => boolean): Promise<void> =>
    clock.runUntil(done, after(clock.now(), UNTIL_MAX))
      ? Promise.resolve()
      : Promise.reject(new Error("it never happened"));
  return Promise.resolve({ clock, until, close: () => undefined });
});

function realTime(clock: NodeClock): ClockUnderTest {
  const until = (done: () => boolean): Promise<void> =>
    new Promise((resolve, reject) => {
      const limit = after(clock.now(), UNTIL_MAX);
      const ask = (): void => {
        try {
          if (done()) resolve();
          else if (clock.now() > limit) reject(new Error("it never happened"));
          else setImmediate(ask);
        } catch (error) {
          reject(error instanceof Error ? error : new Error(String(error)));
        }
      };
      ask();
    });
  return { clock, until, close: () => clock.close() };
}

clockConformance("real clock, by its worker", async () => {
  const clock = new NodeClock();
  await clock.ready();
  return realTime(clock);
});

clockConformance("real clock, by the event loop alone", () => {
  const monotonicUs = (): number => performance.now() * 1_000;
  return Promise.resolve(realTime(new NodeClock({ sources: { monotonicUs, wallMs: Date.now } })));
});
