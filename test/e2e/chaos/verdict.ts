/**
 * Judges the record of a chaos run: a report, and whether the invariants hold (docs/architecture.md, T1 and T2). Pure.
 */
import type { ChaosRecord, SentRequest, Strike, StrikeSignal } from "./record.ts";

/** Delay after the deadline at which the client reports UNAVAILABLE (docs/architecture.md, T1). */
export const CLIENT_GRACE_MS = 100;
/** Time after a strike in which requests need not be answered in time. */
const AFTERMATH_MS = 500;
/** Longest delay after a strike at which a time without service is attributed to it. */
const REACH_MS = 3_000;
export const IN_TIME_SHARE_MIN = 0.99;

export type Fate =
  /** Answered with its own outputs, by its deadline or after it. */
  | { readonly kind: "in-time" | "late" }
  | { readonly kind: "refused"; readonly cause: string }
  /**
   * No answer until the client gave up, with a strike on the way: UNAVAILABLE. An ingress or a NATS server on the
   * request's way was killed or frozen.
   */
  | { readonly kind: "unavailable" }
  /** No answer, though no strike excuses it. */
  | { readonly kind: "lost" }
  | { readonly kind: "wrong" };

export interface Finding {
  readonly token: number;
  readonly sentMs: number;
  readonly text: string;
}

export interface StrikeReport {
  readonly strike: Strike;
  /** Longest time after the strike in which some model gave no good answer. */
  readonly withoutServiceMs: number;
  /** Failed requests of those sent within the aftermath. */
  readonly failed: number;
}

export interface RoleReport {
  readonly role: string;
  readonly strikes: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export interface Verdict {
  readonly sent: number;
  readonly answeredOnce: number;
  readonly inTime: number;
  readonly late: number;
  readonly refused: Readonly<Record<string, number>>;
  readonly unavailable: number;
  readonly lost: readonly Finding[];
  /** Lost requests whose answer came after the client had given up. */
  readonly lostButAnswered: number;
  readonly twice: readonly Finding[];
  /** Repeated answers after a NATS server broke: clients recognise them by their reply subject, and drop them. */
  readonly repeated: number;
  readonly wrong: readonly Finding[];
  /** Requests that a living ingress reports as taken, and that nothing accounts for. */
  readonly unaccounted: number;
  readonly judged: number;
  /** Share in time of the requests sent outside of every aftermath, over connections that did not break. */
  readonly inTimeShare: number;
  readonly strikes: readonly StrikeReport[];
  readonly roles: readonly RoleReport[];
  /** The same measure over stretches without a strike, to compare. */
  readonly usualMs: number;
  readonly fates: readonly Fate[];
}

/**
 * @param graceMs - delay after the deadline at which a client gives up and reports UNAVAILABLE, whatever comes later
 */
export function judge(record: ChaosRecord, graceMs = CLIENT_GRACE_MS): Verdict {
  const { requests, strikes } = record;
  const fates = requests.map((request) => fateOf(request, record, graceMs));
  const find = (fits: (request: SentRequest, fate: Fate) => boolean): Finding[] =>
    requests.filter((request, i) => fits(request, fates[i]!)).map((request) => findingOf(request, record));
  const count = (kind: Fate["kind"]): number => fates.filter((fate) => fate.kind === kind).length;
  const refused: Record<string, number> = {};
  for (const fate of fates) if (fate.kind === "refused") refused[fate.cause] = (refused[fate.cause] ?? 0) + 1;
  const judged = requests.filter(
    ({ sentMs, broken }) => broken.length === 0 && !strikes.some((strike) => isAftermath(strike, sentMs)),
  );
  const goodJudged = judged.filter(({ token }) => fates[token]!.kind === "in-time").length;
  const answers = goodAnswers(record, fates);
  const reports = strikes.map((_, i) => strikeReport(record, fates, answers, i));
  return {
    sent: requests.length,
    answeredOnce: requests.filter(({ answers: all }) => all.length === 1).length,
    inTime: count("in-time"),
    late: count("late"),
    refused,
    unavailable: count("unavailable"),
    lost: find((_, fate) => fate.kind === "lost"),
    lostButAnswered: requests.filter(({ answers: all }, i) => fates[i]!.kind === "lost" && all.length > 0).length,
    twice: find((request) => request.answers.length > 1 && !isRepeated(request, record)),
    repeated: requests.filter((request) => request.answers.length > 1 && isRepeated(request, record)).length,
    wrong: find((_, fate) => fate.kind === "wrong"),
    unaccounted: unaccountedOf(record),
    judged: judged.length,
    inTimeShare: goodJudged / Math.max(1, judged.length),
    strikes: reports,
    roles: roleReports(reports),
    usualMs: usualOf(record, answers),
    fates,
  };
}

/** Broken invariants, in words; none: the run has passed. */
export function failuresOf(verdict: Verdict, shareMin = IN_TIME_SHARE_MIN): string[] {
  const some = (findings: readonly Finding[], what: string): string[] =>
    findings.length === 0 ? [] : [`${findings.length} ${what}, first: ${findings[0]!.text}`];
  const { lost, twice, wrong, unaccounted, inTimeShare } = verdict;
  return [
    ...some(lost, "lost"),
    ...some(twice, "answered twice"),
    ...some(wrong, "answered wrongly"),
    ...(unaccounted > 0 ? [`${unaccounted} taken by a living ingress, of which nothing is known`] : []),
    ...(inTimeShare < shareMin
      ? [
          `${(100 * inTimeShare).toFixed(2)} % in time outside the ${AFTERMATH_MS} ms after a strike, not ${100 * shareMin} %`,
        ]
      : []),
  ];
}

function fateOf(request: SentRequest, record: ChaosRecord, graceMs: number): Fate {
  const { answers, sentMs, sloMs } = request;
  const givenUpMs = sentMs + sloMs + graceMs;
  const [first] = answers;
  if (answers.some(({ status }) => status === "wrong")) return { kind: "wrong" };
  if (request.broken.some((one) => !wasStruck(one, record))) return { kind: "lost" };
  // A gateway reports that its ingress did not answer.
  if (first === undefined || first.atMs > givenUpMs || first.status === "TUTTI_UNAVAILABLE")
    return isExcused(request, record, givenUpMs) ? { kind: "unavailable" } : { kind: "lost" };
  if (first.status !== "ok") return { kind: "refused", cause: first.status };
  return { kind: first.atMs <= sentMs + sloMs ? "in-time" : "late" };
}

/**
 * Whether a request was taken by an ingress that was killed or frozen in its lifetime. The ingress is that of the
 * gateway that was asked, or the one that the tap heard report it to a batcher. Where the ingress is unknown, a struck
 * one is assumed: `unaccounted` shows whether it was a living one.
 */
function isExcused(
  { token, sentMs, via }: SentRequest,
  { strikes, takers, endedMs }: ChaosRecord,
  givenUpMs: number,
): boolean {
  const known = takers.get(token);
  const isOnNats = via === undefined;
  return strikes.some((strike) => {
    // A NATS server is on the way to an ingress, and on the answer's way back.
    if (strike.role === "nats") return isOnNats && isWithin(strike, sentMs, givenUpMs, endedMs);
    if (!hasIngress(strike) || strike.signal === "SIGTERM") return false;
    if (via !== undefined && strike.name !== via) return false;
    if (known !== undefined && strike.actor !== undefined && !known.has(strike.actor)) return false;
    const untilMs = strike.signal === "SIGKILL" ? strike.atMs : (strike.backMs ?? endedMs);
    return strike.atMs <= givenUpMs && untilMs + SENT_BUT_NOT_GONE_MS >= sentMs;
  });
}
/**
 * Whether the answers are repetitions. An ingress sends again what a server had not confirmed when it broke, under the
 * same reply subject.
 */
function isRepeated({ sentMs, answers }: SentRequest, { strikes, endedMs }: ChaosRecord): boolean {
  const isSame = answers.every(({ status }) => status === answers[0]!.status);
  const broke = strikes.filter(({ role }) => role === "nats");
  return isSame && broke.some((strike) => isWithin(strike, sentMs, answers.at(-1)!.atMs, endedMs));
}
/** Whether a NATS server was away, or its clients were connecting to another, at some time of this interval. */
const isWithin = ({ atMs, backMs }: Strike, fromMs: number, untilMs: number, endedMs: number): boolean =>
  atMs <= untilMs && (backMs ?? endedMs) + AFTERMATH_MS >= fromMs;
/** Whether a connection broke because of a strike: those of other processes must not break. */
const wasStruck = (
  { name, atMs }: { readonly name: string; readonly atMs: number },
  { strikes }: ChaosRecord,
): boolean =>
  strikes.some((strike) => strike.name === name && strike.atMs <= atMs && atMs <= (strike.backMs ?? Infinity));
const hasIngress = ({ role }: Strike): boolean => role === "ingress" || role === "node";
/**
 * Time until the server has seen that a connection is gone. Until then it goes on delivering a share to the dead
 * process; on a busy machine that takes a while.
 */
const SENT_BUT_NOT_GONE_MS = 250;

/**
 * Whether a request falls into a time that isn't judged. Without the only node there is no service until it is back.
 * Frozen ingresses get requests from the server until they are woken. A frozen NATS server keeps its clients.
 */
function isAftermath(strike: Strike, sentMs: number): boolean {
  const within = (fromMs: number, untilMs: number): boolean => sentMs >= fromMs && sentMs <= untilMs;
  const { atMs, backMs = Infinity, signal, alone, role } = strike;
  if (within(atMs, atMs + AFTERMATH_MS)) return true;
  if (signal !== "SIGSTOP" && !alone) return false;
  return within(alone || hasIngress(strike) || role === "nats" ? atMs : backMs, backMs + AFTERMATH_MS);
}

/**
 * Requests that vanished in a living ingress. It counts the requests that it takes and answers. Answers name no
 * ingress, but every request that the tap heard of is known, and every other one was answered at the ingress or
 * reported within a host. So a request that was taken and is neither is missing.
 */
function unaccountedOf({ requests, takers, counted }: ChaosRecord): number {
  const told = new Map<number, number>();
  for (const keys of takers.values()) for (const key of keys) told.set(key, (told.get(key) ?? 0) + 1);
  let [taken, open] = [0, 0];
  for (const [key, { requests: count, settled }] of counted) {
    taken += Math.max(0, count - (told.get(key) ?? 0));
    open += Math.max(0, count - settled);
  }
  const isAnswered = ({ answers }: SentRequest): boolean => answers.length > 0 && answers[0]!.status !== "NO_INGRESS";
  const untold = requests.filter(({ token }) => !takers.has(token));
  const silent = untold.filter(({ answers }) => answers.length === 0).length;
  return Math.min(silent, Math.max(open, taken - untold.filter(isAnswered).length));
}

/** Times of good answers, by model, sorted. */
function goodAnswers({ requests }: ChaosRecord, fates: readonly Fate[]): ReadonlyMap<string, readonly number[]> {
  const byModel = new Map<string, number[]>();
  for (const { token, model, answers } of requests) {
    const times = byModel.get(model) ?? [];
    byModel.set(model, times);
    if (fates[token]!.kind === "in-time") times.push(answers[0]!.atMs);
  }
  for (const times of byModel.values()) times.sort((a, b) => a - b);
  return byModel;
}

function strikeReport(
  { requests, strikes, endedMs }: ChaosRecord,
  fates: readonly Fate[],
  answers: ReadonlyMap<string, readonly number[]>,
  index: number,
): StrikeReport {
  const strike = strikes[index]!;
  const untilMs = Math.min(strikes[index + 1]?.atMs ?? endedMs, strike.atMs + REACH_MS);
  const failed = requests.filter(
    ({ sentMs, token }) =>
      sentMs >= strike.atMs && sentMs <= strike.atMs + AFTERMATH_MS && fates[token]!.kind !== "in-time",
  ).length;
  const gaps = [...answers.values()].map((times) => longestGap(times, strike.atMs, untilMs));
  return { strike, failed, withoutServiceMs: Math.max(0, ...gaps) };
}

/** The longest stretch without an answer that overlaps [from, until], counted from `from` on, to its end. */
function longestGap(times: readonly number[], fromMs: number, untilMs: number): number {
  let longest = 0;
  let beganMs = fromMs;
  for (const atMs of times) {
    if (atMs <= fromMs) continue;
    longest = Math.max(longest, atMs - beganMs);
    beganMs = atMs;
    if (atMs > untilMs) return longest;
  }
  return Math.max(longest, untilMs - beganMs);
}

function usualOf(
  { strikes, startedMs, endedMs }: ChaosRecord,
  answers: ReadonlyMap<string, readonly number[]>,
): number {
  const gaps: number[] = [];
  for (let fromMs = startedMs; fromMs + AFTERMATH_MS < endedMs; fromMs += AFTERMATH_MS) {
    const isQuiet = !strikes.some(
      ({ atMs, backMs = atMs }) => atMs <= fromMs + AFTERMATH_MS && backMs + REACH_MS / 2 >= fromMs,
    );
    if (!isQuiet) continue;
    gaps.push(Math.max(...[...answers.values()].map((times) => longestGap(times, fromMs, fromMs + AFTERMATH_MS))));
  }
  return quantile(gaps, 0.5);
}

function roleReports(reports: readonly StrikeReport[]): RoleReport[] {
  const groups = new Map<string, number[]>();
  for (const { strike, withoutServiceMs } of reports) {
    for (const group of [groupOf(strike), `all ${SIGNAL_TEXT[strike.signal]}`, "all"])
      groups.set(group, [...(groups.get(group) ?? []), withoutServiceMs]);
  }
  return [...groups]
    .map(([role, gaps]) => ({ role, strikes: gaps.length, p50Ms: quantile(gaps, 0.5), p99Ms: quantile(gaps, 0.99) }))
    .sort((a, b) => Number(a.role.startsWith("all")) - Number(b.role.startsWith("all")) || (a.role < b.role ? -1 : 1));
}

export const groupOf = ({ role, leading, alone }: Strike): string =>
  alone || (role !== "ranker" && role !== "node") ? role : `${role}, ${leading ? "leading" : "spare"}`;

export const SIGNAL_TEXT: Readonly<Record<StrikeSignal, string>> = {
  SIGKILL: "killed",
  SIGTERM: "asked to end",
  SIGSTOP: "frozen",
};

/** Nearest-rank quantile; NaN without values. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted.length === 0 ? NaN : sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)]!;
}

function findingOf({ token, model, sentMs, answers, broken, via }: SentRequest, record: ChaosRecord): Finding {
  const at = (ms: number): string => `${((ms - record.startedMs) / 1_000).toFixed(3)} s`;
  const broke = broken.map(({ code, atMs }) => `${code} after ${Math.round(atMs - sentMs)} ms, `).join("");
  const got = answers.map((answer) => `${answer.status} after ${Math.round(answer.atMs - sentMs)} ms`).join(", ");
  const takers = [...(record.takers.get(token) ?? [])].map((key) => key.toString(36)).join(", ");
  const before = record.strikes.findLast((strike) => strike.atMs <= sentMs + 500);
  const struck = before === undefined ? "" : `; last struck: ${before.name} by ${before.signal} at ${at(before.atMs)}`;
  const text = `request ${token} of ${model}, sent at ${at(sentMs)}${via === undefined ? "" : ` to ${via}`}, told by ${takers || "nobody"}: ${broke}${got || "no answer"}${struck}`;
  return { token, sentMs, text };
}
