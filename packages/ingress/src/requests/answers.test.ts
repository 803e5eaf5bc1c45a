import { InMemoryNetwork } from "@tutti/ports/bus";
import { VirtualClock } from "@tutti/ports/clock";
import { HEADER, TuttiError } from "@tutti/protocol";
import { after, instant, millis } from "@tutti/units";
import { expect, test } from "vitest";
import { Answers } from "./answers.ts";

test("a refusal of many alike is sent once and not kept; while there is no connection it waits for the next", async () => {
  const clock = new VirtualClock({ startAt: instant(1_000_000) });
  const network = new InMemoryNetwork({
    deliver: (run) => {
      queueMicrotask(run);
      return true;
    },
  });
  const bus = network.connect({ name: "ingress" });
  const publisher = network.connect({ name: "publisher", inboxPrefix: "_INBOX.app" });
  const heard: string[] = [];
  publisher.subscribe("_INBOX.app.>", ({ subject, header }) => heard.push(`${subject} ${header(HEADER.errorCode)}`));
  const run = async (): Promise<void> => {
    for (let ms = 0; ms < 20; ms++) {
      clock.advanceTo(after(clock.now(), millis(1)));
      for (let turn = 0; turn < 20; turn++) await Promise.resolve();
    }
  };
  const answers = new Answers(bus, clock);
  const refusal = new TuttiError("TUTTI_OVERLOADED", "too much comes");

  answers.refuseAlike("_INBOX.app.1", refusal);
  expect(answers.figures.answersKept).toBe(0);
  await run();
  expect(heard).toEqual(["_INBOX.app.1 503"]);

  bus.disconnect();
  answers.refuseAlike("_INBOX.app.2", refusal);
  await run();
  expect([heard.length, answers.figures.answersKept]).toEqual([1, 1]);
  bus.reconnect();
  await run();
  expect(heard).toEqual(["_INBOX.app.1 503", "_INBOX.app.2 503"]);
  expect(answers.figures).toEqual({ answersKept: 0, answersRepeated: 0, answersLost: 0 });
});
