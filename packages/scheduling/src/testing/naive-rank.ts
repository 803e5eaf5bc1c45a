/** docs/algorithms.md, A4, by scanning everything at every step: the ranker's tests compare with it. */
import type { ThreadId } from "@tutti/units";
import type { Candidate, RankEvent } from "../messages.ts";

interface NaiveModel {
  term: number;
  offerSeq: number;
  candidate: Candidate | undefined;
  unfit: Candidate["unfit"];
  timer: number;
  isWaiting: boolean;
  goesFirst?: boolean;
  granted: boolean;
}
interface NaiveGpu {
  executor: number;
  type: number;
  free: number;
  grantSeq: number;
  /** The newest grant that was not declined, and its value before that. */
  reportable: number;
  reportableBefore: number;
  grantedTo: ThreadId | undefined;
  timer: number;
  /** The time from which the newest grant plans, and the planned run of the newest batch. */
  from: number;
  run: number;
}

export class NaiveRank {
  readonly ctrl: number;
  models = new Map<ThreadId, NaiveModel>();
  gpus = new Map<number, NaiveGpu>();
  log: string[] = [];
  /** Share of a run that more and less than half of the batches save, in steps of 1/128. */
  share = 0;
  /** Number of grants that left earlier because accelerators become free earlier than planned. */
  early = 0;

  constructor(ctrl: number) {
    this.ctrl = ctrl;
  }

  get inOrder() {
    return [...this.models].sort((a, b) => a[0] - b[0]);
  }
  publish(m: NaiveModel, now: number) {
    m.isWaiting = false;
    m.timer = m.candidate ? Math.max(now, m.candidate.execAt - m.candidate.delay) : Infinity;
  }
  settle(g: NaiveGpu, free: number, now: number) {
    const m = g.grantedTo === undefined ? undefined : this.models.get(g.grantedTo);
    Object.assign(g, { free, timer: Infinity, grantedTo: undefined });
    this.release(m, now);
  }
  release(m: NaiveModel | undefined, now: number) {
    if (!m) return;
    m.granted = false;
    this.publish(m, now);
  }
  isFit(m: NaiveModel, g: NaiveGpu): boolean {
    return !m.candidate!.unfit.some(({ type }) => type === g.type);
  }
  /** Whether there are accelerators that can't run its candidate. */
  isRestricted(m: NaiveModel): boolean {
    return [...this.gpus.values()].some((g) => g.executor !== 0 && !this.isFit(m, g));
  }
  /** Models whose newest offer names a type, and that could get this accelerator. */
  claims(g: NaiveGpu): number {
    return [...this.models.values()].filter((m) => m.unfit.length > 0 && !m.unfit.some(({ type }) => type === g.type))
      .length;
  }
  leastFree(): [number, NaiveGpu] | undefined {
    const waiting = [...this.models.values()].filter((m) => m.isWaiting);
    return [...this.gpus]
      .filter(([, g]) => g.free < Infinity && waiting.some((m) => this.isFit(m, g)))
      .sort((a, b) => a[1].free - b[1].free || a[0] - b[0])[0];
  }
  matchAt(): number {
    const waiting = [...this.models.values()].filter((m) => m.isWaiting);
    const gpu = this.leastFree()?.[1];
    if (waiting.length === 0 || gpu === undefined) return Infinity;
    return gpu.free - Math.max(...waiting.map((m) => m.candidate!.delay)) - this.lead(gpu);
  }
  /** RANK-8: 0 where a candidate needs the accelerator earlier than planned. */
  lead(g: NaiveGpu): number {
    const isGivenUp = [...this.models.values()].some(
      (m) => m.isWaiting && this.isFit(m, g) && m.candidate!.latest < g.free,
    );
    const delay = Math.max(...[...this.models.values()].map((m) => (m.isWaiting ? m.candidate!.delay : 0)));
    return isGivenUp ? 0 : Math.min(4 * delay, Math.floor((this.share * g.run) / 128));
  }
  report(g: NaiveGpu, freeAt: number) {
    const saved = g.free - freeAt;
    if (g.free < Infinity && saved > 0 && saved * 128 > this.share * g.run) this.share = Math.min(128, this.share + 2);
  }
  wakeAt(): number {
    const timers = [...[...this.models.values()].map((m) => m.timer), ...[...this.gpus.values()].map((g) => g.timer)];
    return Math.min(...timers, this.matchAt());
  }
  grant(thread: ThreadId, m: NaiveModel, gpu: number, now: number) {
    const g = this.gpus.get(gpu)!;
    this.log.push(`${now} grant ${thread}/${m.term}.${m.offerSeq} gpu ${gpu}.${++g.grantSeq} free ${g.free}`);
    const seqs = { reportableBefore: g.reportable, reportable: g.grantSeq, from: Math.max(now, g.free) };
    Object.assign(g, { free: Infinity, grantedTo: thread, timer: now + 4 * this.ctrl + 1, ...seqs });
    Object.assign(m, { granted: true, isWaiting: false, timer: Infinity });
  }
  clock(now: number) {
    for (;;) {
      const due = this.inOrder
        .filter(([, m]) => m.timer <= now)
        .sort((a, b) => a[1].timer - b[1].timer || a[0] - b[0])[0];
      const expired = [...this.gpus]
        .filter(([, g]) => g.timer <= now)
        .sort((a, b) => a[1].timer - b[1].timer || a[0] - b[0])[0];
      if (due) this.modelTimer(due[0], due[1], now);
      else if (expired) this.expire(expired[0], expired[1], now);
      else if (this.matchAt() <= now) this.match(now);
      else return;
    }
  }
  modelTimer(thread: ThreadId, m: NaiveModel, now: number) {
    const c = m.candidate!;
    m.timer = Infinity;
    const execAt = Math.max(c.execAt, now + c.delay);
    const gpu = [...this.gpus]
      .filter(([, g]) => g.free <= execAt && g.free < Infinity && this.isFit(m, g))
      .sort((a, b) => this.claims(a[1]) - this.claims(b[1]) || a[0] - b[0])[0];
    if (gpu && execAt <= c.latest + this.ctrl)
      this.grant(thread, m, gpu[0], now); // RANK-7
    else if (execAt > c.latest) m.candidate = undefined;
    else Object.assign(m, { isWaiting: true, goesFirst: this.isRestricted(m) });
  }
  match(now: number) {
    const [gpu, g] = this.leastFree()!;
    if (this.matchAt() + this.lead(g) > now) this.early++;
    for (const [, m] of this.models)
      if (m.isWaiting && this.isFit(m, g) && m.candidate!.latest < g.free)
        Object.assign(m, { isWaiting: false, candidate: undefined });
    const first = this.inOrder
      .filter(([, m]) => m.isWaiting && this.isFit(m, g))
      .sort(
        ([, a], [, b]) => Number(b.goesFirst) - Number(a.goesFirst) || a.candidate!.latest - b.candidate!.latest,
      )[0];
    if (first) this.grant(first[0], first[1], gpu, now);
  }
  expire(gpu: number, g: NaiveGpu, now: number) {
    const m = g.grantedTo === undefined ? undefined : this.models.get(g.grantedTo);
    Object.assign(g, { grantedTo: undefined, timer: now + 1000 });
    this.release(m, now);
    this.log.push(`${now} ask ${gpu} ${g.executor} ${g.grantSeq}`);
  }
  answered(e: Extract<RankEvent, { kind: "grant-answered" }>) {
    const m = this.models.get(e.thread);
    const g = this.gpus.get(e.gpu);
    if (!m) return;
    if (m.term === e.term && e.offerSeq >= m.offerSeq)
      Object.assign(m, { offerSeq: e.offerSeq, candidate: undefined, isWaiting: false, timer: Infinity });
    if (g?.grantedTo !== e.thread || g.grantSeq !== e.grantSeq) return;
    if (e.used) {
      g.run = e.freeAt - g.from;
      this.share = Math.max(0, this.share - 1);
    } else g.reportable = g.reportableBefore;
    this.settle(g, e.freeAt, e.at);
  }
  step(e: RankEvent) {
    const now = e.at;
    if (e.kind === "candidate-offered") {
      const { thread, term, offerSeq, batchSize } = e.candidate;
      const m = this.models.get(thread) ?? {
        term: -1,
        offerSeq: -1,
        candidate: undefined,
        unfit: [],
        timer: Infinity,
        isWaiting: false,
        granted: false,
      };
      this.models.set(thread, m);
      if (term < m.term || (term === m.term && offerSeq <= m.offerSeq)) return;
      Object.assign(m, {
        term,
        offerSeq,
        unfit: e.candidate.unfit,
        candidate: batchSize > 0 ? { ...e.candidate } : undefined,
      });
      if (!m.granted) this.publish(m, now);
    } else if (e.kind === "grant-answered") this.answered(e);
    else if (e.kind === "gpu-joined") {
      const g = this.gpus.get(e.gpu) ?? {
        executor: 0,
        type: 0,
        free: Infinity,
        grantSeq: 0,
        reportable: 0,
        reportableBefore: 0,
        grantedTo: undefined,
        timer: Infinity,
        from: 0,
        run: 0,
      };
      if (g.executor === e.executor && e.grantSeq < g.grantSeq) return;
      if (g.executor !== e.executor) g.run = 0;
      this.gpus.set(
        e.gpu,
        Object.assign(g, {
          executor: e.executor,
          type: e.type,
          grantSeq: Math.max(g.grantSeq, e.grantSeq),
          reportable: e.grantSeq,
        }),
      );
      this.settle(g, e.freeAt, now);
    } else if (e.kind === "gpu-freed") {
      const g = this.gpus.get(e.gpu);
      if (g?.executor !== e.executor || e.grantSeq < g.reportable) return;
      if (e.grantSeq > g.grantSeq) Object.assign(g, { grantSeq: e.grantSeq, reportable: e.grantSeq });
      else if (e.ended) this.report(g, e.freeAt);
      this.settle(g, e.freeAt, now);
    } else if (e.kind === "gpu-lost") {
      const g = this.gpus.get(e.gpu);
      if (g?.executor !== e.executor) return;
      this.settle(g, Infinity, now);
      g.executor = 0;
    } else if (e.kind === "model-gone") {
      for (const g of this.gpus.values()) if (g.grantedTo === e.thread) g.grantedTo = undefined;
      this.models.delete(e.thread);
    } else if (e.kind === "clock-reached") this.clock(now);
  }
}
