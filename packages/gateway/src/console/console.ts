/** Assembles the console. Its records run all the time (arrivals, refusals, history), its view while a page is open. */
import type { CatalogModel } from "@tutti/actors";
import type { Bus } from "@tutti/ports/bus";
import { ClusterView, livePlan } from "@tutti/admin/operators";
import { ConsoleFiles, type FeedPlan, History } from "@tutti/console";
import { BUCKET, PLACEMENT_KEY, REPORT_KEY, type StatsReported, isPlacement, isPlanReport } from "@tutti/protocol";
import { type Store, isStoreFailure } from "@tutti/ports/store";
import type { Logger } from "@tutti/ports/telemetry";
import type { Instant } from "@tutti/units";
import { fromJson } from "@tutti/wire";
import type { BodyReader } from "../http/body-reader.ts";
import {
  type OperatorPorts,
  ArrivalRecord,
  byRate,
  EndedBatches,
  feedPlan,
  feedState,
  LiveFeed,
  modelFigures,
  ModelWindows,
  RecentRefusals,
  REPLAY_POLICIES,
  Replays,
  Restarts,
  Traces,
} from "@tutti/console/server";
import { ConsoleApi, type ConsoleParts } from "./console-api.ts";

export interface ConsoleOptions {
  readonly bus: Bus;
  readonly store: Store;
  readonly cluster: string;
  readonly log: Logger;
  readonly now: () => Instant;
  readonly models: () => readonly CatalogModel[];
  readonly missing: () => readonly string[];
  readonly batchers: () => Iterable<StatsReported>;
  readonly bodies: BodyReader;
  readonly mayRead: ConsoleParts["mayRead"];
  readonly administer: ConsoleParts["administer"];
  /** An operator is authorised by the gateway's token or an administrator's key; undefined: by nothing. */
  readonly authorisedBy: "token" | "key" | undefined;
  readonly operator: OperatorPorts | undefined;
  /** Address of a Jaeger. */
  readonly traceQuery: string | undefined;
  /** Folder of the built page; for tests. */
  readonly folder?: string | undefined;
}

/** Refresh interval of the plan and the processes' names, which change once a second at most. */
const SLOWLY_MS = 2_000;

export class Console {
  readonly api: ConsoleApi;
  readonly record = new ArrivalRecord();
  readonly #options: ConsoleOptions;
  readonly #refusals: RecentRefusals;
  readonly #ended = new EndedBatches();
  readonly #windows = new ModelWindows();
  readonly #history = new History();
  /** The second of the history's last point. */
  #notedAt = 0;
  readonly #feed: LiveFeed;
  readonly #restarts: Restarts | undefined;
  /** The view, while a page or a restart uses it. */
  #view: { readonly view: ClusterView; users: number; readonly listening: { stop(): void } } | undefined;
  #plan: FeedPlan | undefined;

  constructor(options: ConsoleOptions) {
    this.#options = options;
    const { now, models, batchers, bodies, mayRead, administer, traceQuery } = options;
    this.#refusals = new RecentRefusals((fresh) => this.#feed.tell("refusals", fresh));
    this.#feed = this.#createFeed();
    this.#restarts = this.#createRestarts();
    this.api = new ConsoleApi({
      files: new ConsoleFiles(options.folder),
      feed: this.#feed,
      replays: new Replays({ record: this.record, models, batchers, now }),
      restarts: this.#restarts,
      traces: traceQuery === undefined ? undefined : new Traces(traceQuery),
      bodies,
      ...{ mayRead, administer },
    });
  }

  /** @returns false when a part of the report is malformed (T8) */
  hear(stats: StatsReported): boolean {
    const isHeard = this.record.hear(stats) && this.#refusals.hear(stats);
    this.#windows.hear(stats, this.#options.now());
    this.#note();
    return isHeard && (this.#feed.size === 0 || this.#ended.hear(stats));
  }

  /** Adds a point to the history with the first report of each second: no timer, and none while nobody reports. */
  #note(): void {
    const now = this.#options.now();
    const second = Math.floor(now / 1e6);
    if (second <= this.#notedAt) return;
    this.#notedAt = second;
    const windows = this.#windows.figures(now);
    const rows = this.#options.models().map((model) => modelFigures(model, windows.get(model.spec.number)));
    this.#history.note(second, rows.sort(byRate));
  }

  #createFeed(): LiveFeed {
    const { cluster, authorisedBy, operator, now, traceQuery } = this.#options;
    return new LiveFeed({
      open: () => this.#open(),
      hello: () => ({
        cluster,
        policies: REPLAY_POLICIES,
        restart: operator === undefined ? "closed" : (authorisedBy ?? "closed"),
        traces: traceQuery !== undefined,
      }),
      history: () => this.#history.toFeed(),
      state: () => this.#state(),
      refusals: () => this.#refusals.all,
      plan: () => this.#plan,
      batches: () => this.#ended.take(now()),
    });
  }

  #createRestarts(): Restarts | undefined {
    const { operator, authorisedBy, cluster, log } = this.#options;
    if (operator === undefined || authorisedBy === undefined) return undefined;
    return new Restarts({
      operator,
      cluster,
      log,
      tell: (operation) => this.#feed.tell("operation", operation),
      withView: async (use) => {
        const { view } = this.#look();
        try {
          return await use(view);
        } finally {
          this.#lookAway();
        }
      },
    });
  }

  #open(): { stop(): void } {
    this.#look();
    const slowly = setInterval(() => this.#readSlowly(), SLOWLY_MS);
    slowly.unref();
    this.#readSlowly();
    return {
      stop: () => {
        clearInterval(slowly);
        this.#ended.clear();
        this.#lookAway();
      },
    };
  }

  #state(): ReturnType<typeof feedState> {
    const { models, missing, now } = this.#options;
    return feedState({
      nowMs: now() / 1_000,
      windows: this.#windows.figures(now()),
      view: this.#view?.view ?? new ClusterView(),
      models: models(),
      missing: missing(),
      agents: this.#restarts?.agents ?? [],
      record: {
        arrivals: this.record.size,
        seconds: Math.round(this.record.span(now()) / 1e6),
        left: this.record.left,
      },
    });
  }

  #look(): { readonly view: ClusterView } {
    if (this.#view === undefined) {
      const { bus, cluster } = this.#options;
      const view = new ClusterView();
      this.#view = { view, users: 0, listening: view.listen(bus, cluster) };
    }
    this.#view.users++;
    return this.#view;
  }
  #lookAway(): void {
    if (this.#view === undefined || --this.#view.users > 0) return;
    this.#view.listening.stop();
    this.#view = undefined;
  }

  #readSlowly(): void {
    void this.#restarts?.askAgents();
    const { store, now } = this.#options;
    read(store, PLACEMENT_KEY, (placement) =>
      read(store, REPORT_KEY, (report) => {
        if (placement !== undefined && !isPlacement(placement)) return;
        const plan = livePlan(placement, isPlanReport(report) ? report : undefined, now());
        this.#plan = feedPlan(plan, now() / 1_000);
      }),
    );
  }
}

/** Reads a value of the plan bucket. An unreadable one counts as absent, until the next read. */
function read(store: Store, key: string, done: (value: unknown) => void): void {
  store.get(BUCKET.plan, key, (result) => {
    if (isStoreFailure(result)) return;
    if (result === "absent") return done(undefined);
    try {
      done(fromJson(result.value));
    } catch {
      done(undefined);
    }
  });
}
