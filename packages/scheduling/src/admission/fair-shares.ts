/**
 * Admission to a ModelThread's queue while more requests come than can be served. Shares are fair by application, and
 * within an application higher priorities go first. docs/algorithms.md, A12; docs/architecture.md, section 4.
 *
 *   SHARE-1. In calm, and for requests of one application and one priority, nothing is refused here: A2 alone decides,
 *            as it would without this file.
 *   SHARE-2. While overloaded, an application has the rate min(demand, level · weight), weighted max-min. So none gets
 *            less because another sends more.
 *   SHARE-3. A priority takes only from lower ones of its own application, and leaves them the floor.
 *   SHARE-4. A request that could not have been served when it came counts neither as demand nor as a loss.
 *   SHARE-5. At most CLASSES_MAX (application, priority) pairs are told apart; any beyond them share one account.
 *
 * O(1) for a request, and O(k log k) a period for k classes.
 */
import type { Instant, Micros } from "@tutti/units";
import { CapacityControl, type Period } from "./capacity-control.ts";
import { type AppAccount, type ClassAccount, spend } from "./class-account.ts";
import { type ShareRules, dealShares } from "./deal-shares.ts";
import { SustainedLoss } from "./sustained-loss.ts";

/** Fraction of one (application, priority) that may be sent. */
export interface ClassShare {
  readonly app: number;
  readonly priority: number;
  /** Fraction of the sent requests, 0 … 1. */
  readonly keep: number;
}

export const CLASSES_MAX = 256;

const PERIOD_MIN = 50_000;
const PERIOD_MAX = 500_000;
/** Time over which usual rates follow: a minute of calm, µs. */
const USUAL_OVER = 60_000_000;
/** Requests a period below which a class is idle, and its place may be given to another. */
const IDLE = 0.01;
/** Number of calm periods that are treated as one, since there is little to see in them. */
const CALM_PERIODS = 10;
const OTHERS = -1;
/** Key of no class. It is a small integer, so that V8 stores `#lastKey` in the object itself. */
const NO_KEY = -1_000_000;
/**
 * Multiple of its share that a lone class may send: A2 alone decides which of it is served (SHARE-1), and a capacity
 * that was measured too low grows with what accelerators do.
 */
const ALONE = 2;
/** Smoothing of a demand from period to period. */
const FADE = 0.5;

interface Classed {
  readonly app: number;
  readonly priority?: number;
  /**
   * A warm-up request of the system's own. Its loss says nothing of overload, and counts as none. It is admitted in
   * calm only.
   */
  readonly isOwn?: boolean;
}

/** Times of a dispatched batch, µs. */
interface Dispatched {
  /** Time for which its accelerator had been idle; 0: no longer than a hop takes. */
  readonly idleFor: number;
  readonly run: number;
  /** Time that its requests take in a target batch. */
  readonly work: number;
}

export class FairShares {
  readonly control = new CapacityControl();
  readonly #loss = new SustainedLoss();
  readonly #rules: ShareRules;
  readonly #period: number;
  readonly #apps = new Map<number, AppAccount>();
  readonly #classes = new Map<number, ClassAccount>();
  /** Values of both maps, which every period iterates over. */
  #owners: AppAccount[] = [];
  #accounts: ClassAccount[] = [];
  /** Number of classes in which anybody but the system has sent requests. */
  #asking = 0;
  #last: ClassAccount | undefined;
  #lastKey = NO_KEY;
  /** Length and counts of this period. */
  #length: number;
  #periodEnd = -Infinity;
  #dispatched = 0;
  #run = 0;
  #idle = 0;
  #work = 0;
  #dropped = 0;
  #droppedAtOnce = 0;
  #isShed = false;
  /** Length of the period whose requests are `unsure`, µs. */
  #unsureLength = 0;

  constructor(rules: ShareRules, slo: Micros) {
    this.#rules = rules;
    this.#period = Math.min(PERIOD_MAX, Math.max(PERIOD_MIN, Math.round(slo / 2)));
    this.#length = this.#period;
  }

  get isOverloaded(): boolean {
    return this.control.state !== "normal";
  }

  /** True if requests are being refused by their shares, here or (reported by `shed`) before they come here. */
  get isLimiting(): boolean {
    return this.isOverloaded && (!this.#isAlone || this.#isShed);
  }

  /** True if a good part of the arrivals has been lost for seconds: overload lasts, and is no passing burst. */
  isLasting(at: Instant): boolean {
    return this.#loss.lasts(at);
  }

  /** Number of requests that were lost or refused. */
  get lostCount(): number {
    return this.#loss.count;
  }

  /** Share of the latest requests that were lost or refused: 0 … 1. */
  get lostShare(): number {
    return this.#loss.share;
  }

  /** Counts an arrival, also one that could not have been served whenever it came. */
  came(request: Classed): void {
    if (request.isOwn !== true) this.#loss.came();
  }

  /** Counts a request that was refused because `admit` said so. */
  refused(request: Classed): void {
    if (request.isOwn !== true) this.#loss.lost();
  }

  /** Decides whether an arriving request may queue; if not, it is refused as overloaded (SHARE-1). */
  admit(at: Instant, request: Classed): boolean {
    if (at >= this.#periodEnd) this.#roll(at);
    const account = this.#of(request);
    if (request.isOwn === true) return !this.isOverloaded;
    if (!account.asks) this.#meet(account);
    account.arrivals++;
    return !this.isOverloaded || account.rate === Infinity || this.#isAlone || spend(account, at);
  }

  /** Counts requests of a class that were refused before they came here, because of `shares`. */
  shed(at: Instant, request: Classed, count: number): void {
    this.advance(at);
    const account = this.#of(request);
    if (!account.asks) this.#meet(account);
    account.arrivals += count;
    this.#isShed = true;
  }

  /** Counts a batch. */
  dispatched(requests: readonly Classed[], { idleFor, run, work }: Dispatched): void {
    this.#dispatched += requests.length;
    this.#run += run;
    this.#idle += Math.min(idleFor, this.#period);
    this.#work += work;
  }

  /**
   * Counts a request that was dropped although its SLO could have been met.
   *
   * @param atOnce - true if it was dropped on arrival because it came too late, whatever accelerators do
   */
  dropped(at: Instant, request: Classed, atOnce = false): void {
    if (request.isOwn === true) return;
    this.#loss.lost();
    if (!this.isOverloaded && this.#dropped === 0 && this.#length > this.#period) this.#cutShort(at);
    this.#dropped++;
    if (atOnce) this.#droppedAtOnce++;
  }

  advance(at: Instant): void {
    if (at >= this.#periodEnd) this.#roll(at);
  }

  /** Classes of which only a part may be sent; ingresses can refuse the rest earlier. */
  shares(): ClassShare[] {
    if (!this.isOverloaded) return [];
    const times = this.#isAlone ? ALONE : 1;
    return this.#accounts
      .filter(({ owner, keep }) => keep * times < 1 && owner.app !== OTHERS)
      .map(({ owner, priority, keep }) => ({ app: owner.app, priority, keep: keep * times }));
  }

  /**
   * True if one class has nobody to share with, so that A2 alone decides (SHARE-1). If the system's own requests are
   * the only others, the class keeps its share: a flood is then refused on arrival. (Under overload none of the
   * system's own requests are admitted, so no application has to share with them.)
   */
  get #isAlone(): boolean {
    return this.#asking < 2 && this.#accounts.length < 2;
  }

  /** Notes that anybody but the system sends requests of this class. */
  #meet(account: ClassAccount): void {
    account.asks = true;
    this.#asking++;
  }

  #of({ app, priority = 0 }: Classed): ClassAccount {
    const key = app * 256 + priority;
    return key === this.#lastKey ? this.#last! : this.#find(key, app, priority);
  }

  #find(key: number, app: number, priority: number): ClassAccount {
    const account = this.#classes.get(key) ?? this.#open(key, app, priority);
    this.#last = account;
    this.#lastKey = key;
    return account;
  }

  #open(key: number, app: number, priority: number): ClassAccount {
    if (this.#classes.size >= CLASSES_MAX && app !== OTHERS) return this.#of({ app: OTHERS }); // SHARE-5
    let owner = this.#apps.get(app);
    if (owner === undefined) {
      this.#apps.set(app, (owner = { app, usual: 0, calm: 0, unsure: undefined, classes: [] }));
      this.#owners.push(owner);
    }
    const account = {
      ...{ owner, priority, asks: false, arrivals: 0, demand: 0 },
      rate: Infinity,
      keep: 1,
      tokens: 0,
      refilledAt: 0,
    };
    owner.classes.push(account);
    owner.classes.sort((a, b) => b.priority - a.priority);
    this.#classes.set(key, account);
    this.#accounts.push(account);
    return account;
  }

  /** Ends every period that is over; after a long pause nothing is left to fade. */
  #roll(at: Instant): void {
    if (this.#periodEnd === -Infinity) this.#periodEnd = at + this.#length;
    for (let ended = 0; at >= this.#periodEnd; ended++) {
      this.#end();
      this.#periodEnd = ended < 64 ? this.#periodEnd + this.#length : at + this.#length;
    }
  }

  /**
   * Ends a long period of calm at the first drop. In calm there is little to see, so periods are long. Its arrivals may
   * be a flood, and are not learnt.
   */
  #cutShort(at: Instant): void {
    this.#length = Math.max(this.#period, this.#length - Math.max(0, this.#periodEnd - at));
    this.control.calm(this.#counts(), this.#length / this.#period);
    for (const account of this.#accounts) {
      account.demand = (account.arrivals * this.#period) / this.#length;
      account.arrivals = 0;
    }
    this.#dispatched = this.#run = this.#idle = this.#work = 0;
    this.#length = this.#period;
    this.#periodEnd = at + this.#length;
  }

  #end(): void {
    const { control } = this;
    const wasCalm = !this.isOverloaded;
    if (wasCalm && this.#dropped === 0) {
      this.#learn();
      control.calm(this.#counts(), this.#length / this.#period);
      this.#length = CALM_PERIODS * this.#period;
    } else {
      this.#control();
      this.#length = this.#period;
    }
    if (this.isOverloaded) for (const owner of this.#owners) owner.unsure = undefined;
    if (this.isOverloaded) dealShares(this.#owners, this.control.rate, this.#period, this.#rules);
    else if (!wasCalm) this.#letIn();
    this.#dispatched = this.#run = this.#idle = this.#work = this.#dropped = this.#droppedAtOnce = 0;
    for (let i = 0; i < this.#accounts.length; i++) this.#accounts[i]!.arrivals = 0;
    if (this.#classes.size >= CLASSES_MAX) this.#closeIdle();
  }

  #control(): void {
    this.control.end(this.#counts());
    if (this.control.state === "stalled") this.#standStill();
    else for (const account of this.#accounts) account.demand += FADE * (account.arrivals - account.demand);
  }

  #counts(): Period {
    let offered = 0;
    for (let i = 0; i < this.#accounts.length; i++) offered += this.#accounts[i]!.arrivals;
    return {
      ...{ length: this.#length, offered, dispatched: this.#dispatched, run: this.#run, idle: this.#idle },
      ...{ work: this.#work, dropped: this.#dropped, droppedAtOnce: this.#droppedAtOnce },
    };
  }

  /**
   * Skips a stalled period. Demands stay, since nobody could send. Tokens don't accumulate, since the requests that
   * wait get their share anyway.
   */
  #standStill(): void {
    for (const account of this.#accounts) account.refilledAt += this.#period;
  }

  /**
   * Learns usual rates one period late. A flood loses nothing while its first requests wait, so the arrivals of a
   * period are usual only if the next period is calm too.
   */
  #learn(): void {
    const periods = this.#length / this.#period;
    const fade = Math.min(1, FADE * periods);
    for (let i = 0; i < this.#owners.length; i++) {
      const owner = this.#owners[i]!;
      let arrivals = 0;
      for (let j = 0; j < owner.classes.length; j++) {
        const account = owner.classes[j]!;
        arrivals += account.arrivals;
        account.demand += fade * (account.arrivals / periods - account.demand);
      }
      if (owner.unsure !== undefined) {
        owner.calm += this.#unsureLength;
        const share = Math.max(this.#unsureLength / owner.calm, this.#unsureLength / USUAL_OVER);
        owner.usual += share * (owner.unsure / this.#unsureLength - owner.usual);
      }
      owner.unsure = arrivals;
    }
    this.#unsureLength = this.#length;
  }

  #letIn(): void {
    for (const account of this.#accounts) {
      account.rate = Infinity;
      account.keep = 1;
    }
    this.#isShed = false;
  }

  #closeIdle(): void {
    for (const [key, account] of this.#classes) {
      if (account.demand > IDLE) continue;
      const { owner } = account;
      this.#classes.delete(key);
      owner.classes.splice(owner.classes.indexOf(account), 1);
      if (owner.classes.length === 0) this.#apps.delete(owner.app);
    }
    this.#accounts = [...this.#classes.values()];
    this.#owners = [...this.#apps.values()];
    this.#asking = this.#accounts.filter(({ asks }) => asks).length;
    this.#lastKey = NO_KEY;
  }
}
