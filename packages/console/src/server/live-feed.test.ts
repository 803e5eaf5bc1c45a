import { EventEmitter } from "node:events";
import type { ServerResponse } from "node:http";
import type { FeedBatches, FeedEvents, FeedPlan, FeedState } from "../index.ts";
import { TuttiError } from "@tutti/protocol";
import { expect, test } from "vitest";
import { HISTORY_MODELS_MAX, HISTORY_POINTS_MAX, History } from "../history.ts";
import { FEEDS_MAX, FEED_BACKLOG_MAX, LiveFeed } from "./live-feed.ts";

/** A page's response that records what it receives. */
class Page extends EventEmitter {
  text = "";
  writableLength = 0;
  status = 0;
  ended = false;
  writeHead(status: number): void {
    this.status = status;
  }
  write(text: string): void {
    this.text += text;
  }
  end(): void {
    this.ended = true;
  }
  destroy(): void {
    this.emit("close");
  }
  take(): string[] {
    const names = [...this.text.matchAll(/^event: (\w+)$/gm)].map(([, name = ""]) => name);
    this.text = "";
    return names;
  }
}
async function join(feed: LiveFeed, page = new Page(), mayRead = () => Promise.resolve()): Promise<Page> {
  await feed.join(page as unknown as ServerResponse, mayRead);
  return page;
}

const STATE: FeedState = {
  at: 0,
  missing: [],
  ...{ models: [], modelsLeft: 0, gpus: [], gpusLeft: 0, actors: [], actorsLeft: 0, jobs: [], jobsLeft: 0 },
  record: { arrivals: 0, seconds: 0, left: 0 },
};
const PLAN: FeedPlan = {
  epoch: 1,
  madeAt: 5_000,
  seenAt: 5_000,
  ...{ models: [], accelerators: [], leftOut: [], advice: null, reasons: [] },
};

function scene() {
  const it = {
    opened: 0,
    stopped: 0,
    asked: 0,
    state: STATE,
    plan: PLAN as FeedPlan | undefined,
    batches: undefined as FeedBatches | undefined,
    history: { at: [], models: [] } as FeedEvents["history"],
    pasts: 0,
  };
  const feed = new LiveFeed({
    open: () => (it.opened++, { stop: () => void it.stopped++ }),
    hello: () => ({ cluster: "main", policies: [], restart: "closed", traces: false }),
    history: () => (it.pasts++, it.history),
    state: () => (it.asked++, it.state),
    refusals: () => [],
    plan: () => it.plan,
    batches: () => {
      const { batches } = it;
      it.batches = undefined;
      return batches;
    },
  });
  return { it, feed };
}

test("nothing is listened to and nothing computed before a page is open and after the last one has gone (LF1)", async () => {
  const { it, feed } = scene();
  expect([it.opened, it.asked]).toEqual([0, 0]);
  const [one, two] = [await join(feed), await join(feed)];
  expect(it.opened).toBe(1);
  one.emit("close");
  expect(it.stopped).toBe(0);
  two.emit("close");
  expect([it.stopped, feed.size]).toEqual([1, 0]);
  const asked = it.asked;
  feed.tell("operation", { at: 0, what: "restart", text: "" });
  expect(it.asked).toBe(asked);
  await join(feed);
  expect(it.opened).toBe(2);
  feed.close();
  expect(it.stopped).toBe(2);
});

test("a page whose client may read no more is closed, and the next tick is for the others (LF4)", async () => {
  const { it, feed } = scene();
  let isGood = true;
  const revoked = await join(feed, new Page(), () => (isGood ? Promise.resolve() : Promise.reject(new Error("gone"))));
  const kept = await join(feed);
  feed.checkRights();
  await Promise.resolve();
  expect(feed.size).toBe(2);
  isGood = false;
  feed.checkRights();
  await Promise.resolve();
  expect(feed.size).toBe(1);
  for (const page of [revoked, kept]) page.take();
  it.state = { ...STATE, missing: ["no ranker leads"] };
  feed.tick();
  expect([revoked.take(), kept.take()]).toEqual([[], ["state", "plan"]]);
});

test("a page is told the whole at first, and then what changed, once a tick at most (LF2)", async () => {
  const { it, feed } = scene();
  const page = await join(feed);
  expect(page.take()).toEqual(["hello", "history", "state", "refusals", "plan"]);
  feed.tick();
  page.take();
  it.state = { ...STATE, at: 250 };
  it.plan = { ...PLAN, madeAt: 5_100, seenAt: 5_100 };
  feed.tick();
  expect(page.take()).toEqual([]);
  it.state = { ...STATE, at: 500, missing: ["no ranker leads"] };
  it.batches = { at: 500, left: 0, rows: [] };
  feed.tell("operation", { at: 1, what: "restart a", text: "begins" });
  feed.tell("operation", { at: 2, what: "restart a", text: "done", end: "done" });
  expect(page.take()).toEqual([]);
  feed.tick();
  expect(page.take().sort()).toEqual(["batches", "operation", "operation", "state"]);
  it.plan = { ...PLAN, epoch: 2 };
  feed.tick();
  expect(page.take()).toEqual(["plan"]);
  feed.close();
});

test("a page that doesn't read misses events, and the others get them (LF2)", async () => {
  const { it, feed } = scene();
  const [slow, quick] = [await join(feed), await join(feed)];
  feed.tick();
  slow.take();
  quick.take();
  slow.writableLength = FEED_BACKLOG_MAX + 1;
  it.state = { ...STATE, missing: ["no ranker leads"] };
  feed.tick();
  expect([slow.take(), quick.take(), feed.missed]).toEqual([[], ["state"], 1]);
  feed.close();
  expect([slow.ended, quick.ended]).toEqual([true, true]);
});

test("no more pages are open than the bound says, and one that closes makes room (LF2)", async () => {
  const { feed } = scene();
  const pages = await Promise.all(Array.from({ length: FEEDS_MAX }, () => join(feed)));
  await expect(join(feed)).rejects.toThrow(TuttiError);
  pages[0]!.emit("close");
  expect((await join(feed)).status).toBe(200);
  feed.close();
});

/** The history of a large cluster, 2.4 MB. */
function longHistory(): FeedEvents["history"] {
  const history = new History();
  const models = Array.from({ length: HISTORY_MODELS_MAX }, (_, i) => ({
    ...{ name: `m${i}`, good: 1_234.5, late: 0.25, refused: {}, queue: 2.5, batchMean: 12.25, target: 16 },
    ...{ p99Ms: 21.75, sloMs: 25 },
  }));
  for (let s = 1; s <= HISTORY_POINTS_MAX; s++) history.note(s, models);
  return history.toFeed();
}

test("a long history is made once for pages that open together, and other work goes on meanwhile (LF3)", async () => {
  const { it, feed } = scene();
  it.history = longHistory();
  let turns = 0;
  let isOver = false;
  const work = (): void => void (turns++, isOver || setImmediate(work));
  work();
  const [one, two] = await Promise.all([join(feed), join(feed)]);
  isOver = true;
  // One turn for each event that is made, and one for each that is sent.
  expect(turns).toBeGreaterThan(1.9 * HISTORY_MODELS_MAX);
  expect(it.pasts).toBe(1);
  expect(one.text).toBe(two.text);
  const page = new History();
  for (const [, name, data = ""] of one.text.matchAll(/^event: (\w+)\ndata: (.*)$/gm)) {
    if (name === "history") page.restore(JSON.parse(data) as FeedEvents["history"]);
    if (name === "historyModel") page.restoreModel(JSON.parse(data) as FeedEvents["historyModel"]);
  }
  expect(page.toFeed()).toEqual(it.history);
  feed.close();
});

test("a page that is slow to read its history is waited for, told no change before it has it, and may go (LF2)", async () => {
  const { it, feed } = scene();
  it.history = { at: [1], models: [] };
  const slow = new Page();
  slow.writableLength = FEED_BACKLOG_MAX + 1;
  const [joined] = [join(feed, slow)];
  await new Promise((resolve) => setImmediate(resolve));
  feed.tick();
  expect(slow.take()).toEqual(["hello", "history"]);
  slow.writableLength = 0;
  slow.emit("drain");
  await joined;
  expect(slow.take()).toEqual(["state", "refusals", "plan"]);
  const gone = new Page();
  gone.writableLength = FEED_BACKLOG_MAX + 1;
  const left = join(feed, gone);
  await new Promise((resolve) => setImmediate(resolve));
  gone.emit("close");
  await left;
  expect(gone.take()).toEqual(["hello", "history"]);
});
