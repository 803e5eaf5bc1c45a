import { VirtualClock } from "@tutti/ports/clock";
import { BUCKET, leaseKeys } from "@tutti/protocol";
import { InMemoryStore, type Store } from "@tutti/ports/store";
import { noTelemetry } from "@tutti/ports/telemetry";
import { type ActorKey, type Micros, actorKey, after, micros, millis } from "@tutti/units";
import { fromJson, toJson } from "@tutti/wire";
import { describe, expect, test } from "vitest";
import { LeaseHolder, type LeaseHolderOptions } from "./lease-holder.ts";

const LEASE = leaseKeys.ranker("main");
const [FIRST, SECOND, OTHER] = [actorKey(11), actorKey(22), actorKey(33)];

/** A store that answers after a hop, and rankers' leases on it. */
function world() {
  const clock = new VirtualClock();
  const later = (run: () => void): void => clock.alarm(run).set(after(clock.now(), micros(50)));
  const store = new InMemoryStore({ deliver: later });
  const run = (duration: Micros = millis(100)): void => clock.advanceTo(after(clock.now(), duration));
  const told: string[] = [];
  const warnings: string[] = [];
  const log = {
    debug: () => undefined,
    info: () => undefined,
    warn: (_: unknown, text?: string) => void warnings.push(text ?? ""),
    error: () => undefined,
    child: () => log,
  };
  type More = Partial<Pick<LeaseHolderOptions, "isFirst" | "prepare" | "onAsk">>;
  const ranker = (self: ActorKey, on: Store = store, more: More = {}): LeaseHolder => {
    const lease: LeaseHolder = new LeaseHolder({
      store: on,
      clock,
      log,
      tracer: noTelemetry.tracer,
      self,
      subCluster: "main",
      retryEvery: millis(20),
      ...more,
      onLead: (epoch) => told.push(`${self} leads ${epoch}`),
      onDeposed: (epoch) => told.push(`${self} deposed ${epoch}`),
    });
    lease.open(() => undefined);
    return lease;
  };
  /** The store as seen by one ranker, whose writes go wrong as `fate` says. */
  const faulty = (fate: () => "refused" | "answer lost" | "fine"): Store => ({
    get: (...args) => store.get(...args),
    put: (...args) => store.put(...args),
    delete: (...args) => store.delete(...args),
    watch: (...args) => store.watch(...args),
    files: store.files,
    update: (bucket, key, value, revision, done) => {
      const now = fate();
      if (now === "refused") later(() => done({ failure: "nobody answers" }));
      else
        store.update(bucket, key, value, revision, (result) =>
          done(now === "fine" ? result : { failure: "timed out" }),
        );
    },
  });
  const write = (value: Uint8Array): void => store.put(BUCKET.leases, LEASE, value, () => undefined);
  return { clock, store, run, told, warnings, ranker, faulty, write };
}

test("one of two rankers leads; when it is suspected the other takes the lease, and the first is deposed", () => {
  const { run, told, ranker } = world();
  ranker(FIRST);
  run();
  const second = ranker(SECOND);
  run();
  expect(told).toEqual(["11 leads 1"]);
  expect(second.leader).toEqual({ key: FIRST, epoch: 1 });
  second.suspect(FIRST, "gone");
  run();
  expect(told.toSorted()).toEqual(["11 deposed 1", "11 leads 1", "22 leads 2"]);
  expect(second.leader).toBe(undefined);
});

test("a takeover that the store refused is tried again for as long as the leader is suspected (LEASE-1)", () => {
  const { run, told, ranker, faulty } = world();
  ranker(FIRST);
  run();
  let refused = 0;
  const second = ranker(
    SECOND,
    faulty(() => (refused++ < 3 ? "refused" : "fine")),
  );
  run();
  second.suspect(FIRST, "gone");
  run(millis(10));
  expect(told).toEqual(["11 leads 1"]);
  run();
  expect(told).toContain("22 leads 2");
});

test("a spare that is not the first leaves the lease to the one that is, and takes it 20 ms later if that one did not", () => {
  const { run, told, ranker } = world();
  ranker(FIRST);
  run();
  const second = ranker(SECOND, undefined, { isFirst: () => false });
  run();
  second.suspect(FIRST, "gone");
  run(millis(19));
  expect(told).toEqual(["11 leads 1"]);
  run(millis(25));
  expect(told).toContain("22 leads 2");
});

test.each([
  ["a leader that is heard again is suspected no more (LEASE-1)", (lease: LeaseHolder) => lease.heard(FIRST)],
  [
    "what a server said of the leader while it ended counts no more once it is back",
    (lease: LeaseHolder) => lease.reconnected(),
  ],
])("%s", (_, acquit) => {
  const { run, told, ranker, faulty } = world();
  ranker(FIRST);
  run();
  let fate: "refused" | "fine" = "refused";
  const second = ranker(
    SECOND,
    faulty(() => fate),
  );
  run();
  second.suspect(FIRST, "gone");
  run();
  acquit(second);
  fate = "fine";
  run();
  expect(told).toEqual(["11 leads 1"]);
});

test("who was written into the lease leads, also when the answer to its writing was lost (LEASE-2)", () => {
  const { run, told, ranker, faulty } = world();
  ranker(
    FIRST,
    faulty(() => "answer lost"),
  );
  run();
  expect(told).toEqual(["11 leads 1"]);
});

test("who learns of its success after another has succeeded it does not lead", () => {
  const { run, told, ranker, store, faulty } = world();
  const slow: Store = {
    ...faulty(() => "fine"),
    update: (bucket, key, value, revision, done) =>
      store.update(bucket, key, value, revision, () => {
        store.put(BUCKET.leases, LEASE, toJson({ ranker: OTHER }), () => done({ revision: 1 }));
      }),
    watch: (bucket, key, watcher) =>
      store.watch(bucket, key, { ...watcher, onEntry: (entry) => entry.revision > 1 && watcher.onEntry(entry) }),
  };
  const lease = ranker(FIRST, slow);
  run();
  expect(told).toEqual([]);
  expect(lease.leader).toEqual({ key: OTHER, epoch: 2 });
});

test("a lease that cannot be read is nobody's: it is taken, and whoever led before is deposed (LEASE-3, T8)", () => {
  for (const junk of ["", "{", "null", "7", '{"ranker":"x"}', '{"ranker":-1}', '{"ranker":1.5}', "\u0000"]) {
    const { run, told, warnings, ranker, write, store } = world();
    ranker(FIRST);
    run();
    write(new TextEncoder().encode(junk));
    run();
    expect(told, junk).toEqual(["11 leads 1", "11 deposed 1", "11 leads 3"]);
    expect(warnings).toContain("the lease cannot be read, and counts as nobody's");
    let holder: unknown;
    store.get(BUCKET.leases, LEASE, (entry) => {
      if (entry !== "absent" && !("failure" in entry)) holder = fromJson(entry.value);
    });
    run();
    expect(holder).toEqual({ form: 1, ranker: FIRST });
  }
});

test("a store that fails is not asked more often than every 20 ms", () => {
  const { run, ranker, faulty } = world();
  let asked = 0;
  ranker(
    FIRST,
    faulty(() => (asked++, "refused")),
  );
  run(millis(1_000));
  expect(asked).toBeGreaterThan(20);
  expect(asked).toBeLessThanOrEqual(51);
});

test("one that closed takes nothing and leads nobody, whatever the store says afterwards", () => {
  const { run, told, ranker, store } = world();
  const lease = ranker(FIRST);
  lease.close();
  run();
  store.put(BUCKET.leases, LEASE, toJson({ ranker: FIRST }), () => undefined);
  run();
  expect(told).toEqual([]);
});

test("a leader whose store is silent steps down when others obey a newer epoch, and takes nothing until it knows who leads", () => {
  const { run, told, ranker, store } = world();
  let shows = true;
  const deaf: Store = {
    get: (...args) => store.get(...args),
    put: (...args) => store.put(...args),
    delete: (...args) => store.delete(...args),
    update: (...args) => store.update(...args),
    files: store.files,
    watch: (bucket, prefix, watcher) =>
      store.watch(bucket, prefix, { ...watcher, onEntry: (entry) => shows && watcher.onEntry(entry) }),
  };
  const first = ranker(FIRST, deaf);
  run();
  shows = false;
  const second = ranker(SECOND);
  run();
  second.suspect(FIRST, "gone");
  run();
  expect(told).toEqual(["11 leads 1", "22 leads 2"]);
  first.outranked(1);
  expect(first.epoch).toBe(1);
  first.outranked(2);
  run(millis(500));
  expect(told).toEqual(["11 leads 1", "22 leads 2", "11 deposed 1"]);
  expect([first.epoch, second.epoch]).toEqual([0, 2]);
});

test("a leader that is told of a newer epoch which nobody has leads again under one that is", () => {
  const { run, told, ranker } = world();
  const first = ranker(FIRST);
  run();
  first.outranked(2 ** 40);
  expect(first.epoch).toBe(0);
  run();
  expect(told).toEqual(["11 leads 1", "11 deposed 1", "11 leads 2"]);
});

describe("who follows a leader that yields (LEASE-4)", () => {
  function following() {
    const { run, told, ranker } = world();
    ranker(FIRST);
    run();
    const asked: [string, number][] = [];
    let prepared: () => void = () => undefined;
    const second = ranker(SECOND, undefined, {
      prepare: (epoch, done) => {
        asked.push(["prepare", epoch]);
        prepared = done;
      },
      onAsk: (epoch) => asked.push(["ask", epoch]),
    });
    run();
    second.suspect(FIRST, "yields");
    return { run, told, asked, second, prepared: () => prepared() };
  }

  test("asks for the lease when it is prepared to grant, once", () => {
    const { run, told, asked, second, prepared } = following();
    run(millis(10));
    second.suspect(FIRST, "yields");
    expect(asked).toEqual([["prepare", 1]]);
    prepared();
    prepared();
    run();
    expect(asked).toEqual([
      ["prepare", 1],
      ["ask", 1],
    ]);
    expect(told).toContain("22 leads 2");
  });

  test("does not wait for who never answers", () => {
    const { run, told, asked, prepared } = following();
    run(millis(19));
    expect(asked).toHaveLength(1);
    run(millis(21));
    expect(asked.at(-1)).toEqual(["ask", 1]);
    expect(told).toContain("22 leads 2");
    prepared();
    run();
    expect(asked).toHaveLength(2);
  });

  test("does not wait for what it prepared under a suspicion that is over", () => {
    const { run, told, second } = following();
    run(millis(1));
    second.reconnected();
    second.suspect(FIRST, "gone");
    run(millis(1));
    expect(told).toContain("22 leads 2");
  });

  test("and is not the first gives that one 50 ms", () => {
    const { run, told, ranker } = world();
    ranker(FIRST);
    run();
    const second = ranker(SECOND, undefined, { isFirst: () => false, prepare: (_, prepared) => prepared() });
    run();
    second.suspect(FIRST, "yields");
    run(millis(49));
    expect(told).toEqual(["11 leads 1"]);
    run(millis(2));
    expect(told).toContain("22 leads 2");
  });

  test("does not wait either once that one grants no more", () => {
    const { run, told, second } = following();
    run(millis(1));
    second.suspect(FIRST, "gone");
    run(millis(1));
    expect(told).toContain("22 leads 2");
  });
});
