import { expect, test } from "vitest";
import { AppShares } from "./app-shares.ts";
import { ResultNotes } from "./result-notes.ts";

function scene() {
  const shares = new AppShares();
  const noted: string[] = [];
  /** Called before each note. */
  let onNote = (_app: string): void => undefined;
  const queue = {
    noteResults: async (app: string, bytes: number) => {
      onNote(app);
      noted.push(`${app} ${bytes}`);
    },
  };
  const notes = new ResultNotes(queue, shares);
  const look = () => shares.look("results", async () => ({ bytesByApp: new Map(), bytesFree: 1_000 }));
  return { shares, notes, noted, look, when: (react: (app: string) => void) => void (onNote = react) };
}

test("results of an application are noted together, and once", async () => {
  const { notes, noted } = scene();
  for (const bytes of [1, 2, 3]) notes.stored("shop", bytes);
  notes.stored("bank", 4);
  await notes.note();
  await notes.note();
  expect(noted).toEqual(["shop 6", "bank 4"]);
});

test("noting comes to an end though results are stored meanwhile", async () => {
  const { notes, noted, when } = scene();
  when((app) => notes.stored(app, 1));
  notes.stored("shop", 10);
  await notes.note();
  expect(noted).toEqual(["shop 10"]);
  await notes.note();
  expect(noted).toEqual(["shop 10", "shop 1"]);
});

test("what can't be noted is noted by the next call, with what was stored since", async () => {
  const { notes, noted, when } = scene();
  for (const app of ["shop", "bank", "farm"]) notes.stored(app, 10);
  when((app) => {
    if (app === "bank") throw new Error("away");
  });
  await expect(notes.note()).rejects.toThrow("away");
  notes.stored("bank", 5);
  when(() => undefined);
  await notes.note();
  expect(noted.toSorted()).toEqual(["bank 15", "farm 10", "shop 10"]);
});

test("a result counts from when it is stored, also through looks that come before its note", async () => {
  const { shares, notes, look } = scene();
  await look();
  notes.stored("shop", 600);
  await look();
  expect(shares.hasRoom("results", "shop")).toBe(false);
  await notes.note();
  expect(shares.hasRoom("results", "shop")).toBe(false);
  await look(); // which would have it now
  expect(shares.hasRoom("results", "shop")).toBe(true);
});
