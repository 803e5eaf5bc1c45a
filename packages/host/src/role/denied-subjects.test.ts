import { RecordingTelemetry } from "@tutti/ports/telemetry";
import { expect, test } from "vitest";
import { DENIED_SUBJECTS_MAX, deniedSubjects } from "./denied-subjects.ts";

test("a subject that NATS refuses every second is logged once, with what to do, and at most so many are", () => {
  const { log, logs } = new RecordingTelemetry();
  const onStatus = deniedSubjects(log);
  const deny = (subject: string): void => onStatus({ kind: "permission-denied", subject, text: `no ${subject}` });
  for (let second = 0; second < 10; second++) deny("tutti.v1.main.wake");
  onStatus({ kind: "disconnected" });
  expect(logs.map(({ fields, text }) => [fields, text])).toEqual([
    [
      { subject: "tutti.v1.main.wake", text: "no tutti.v1.main.wake" },
      expect.stringMatching(/tutti auth write.*reload.*restart this actor/),
    ],
  ]);
  for (let i = 0; i < 2 * DENIED_SUBJECTS_MAX; i++) deny(`_INBOX.${i}`);
  expect(logs).toHaveLength(DENIED_SUBJECTS_MAX);
  expect(logs.map(({ text }) => text.includes("Further subjects are not logged")).indexOf(true)).toBe(
    DENIED_SUBJECTS_MAX - 1,
  );
});
