/** State of a RankThread: the newest candidate of each model, the accelerators, and the timers of both. */
import { IndexedHeap } from "@tutti/collections";
import { ALWAYS, type Instant, type Micros, type ThreadId } from "@tutti/units";
import { ALL_CLASSES, NONE_UNFIT } from "./accelerator-classes.ts";
import { Accelerators } from "./accelerators.ts";
import { HighestScarcity } from "../adaptation/highest-scarcity.ts";
import { JobTurns } from "./job-turns.ts";
import { ThreadSlots } from "../model-thread/thread-slots.ts";
import { WaitingSet } from "../model-thread/waiting-set.ts";

const VALIDITY_TIMES = 4;
/** Most models that are served; offers of further ones are counted and ignored. */
export const MODELS_MAX = 65_536;

export interface RankThreadOptions {
  /** Epoch of the ranker's lease. */
  epoch: number;
  ctrl: Micros;
  /** Validity of a grant, in multiples of d_ctrl. */
  validityTimes?: number;
  /** Accelerator ids are 0 … gpusMax − 1; others are ignored. */
  gpusMax: number;
}

/** State of one model. The slot is reused when the model is gone. */
export class ModelSlot {
  thread: ThreadId;
  term = -1;
  /** Sequence of the newest offer, or of the newest that an answer has voided. */
  offerSeq = -1;
  batchSize = 0;
  execAt: Instant = ALWAYS;
  latest: Instant = ALWAYS;
  delay = 0 as Micros;
  /** Types that can't run it, and a bit for each class of accelerators that can. */
  unfit = NONE_UNFIT;
  classes = ALL_CLASSES;
  /** Run time of its candidate, where that is of jobs; 0: of requests. */
  takes = 0;
  /** The accelerator whose grant to this model is in flight, or −1. */
  grantedGpu = -1;

  constructor(thread: ThreadId) {
    this.thread = thread;
  }
}

export class RankThread {
  readonly epoch: number;
  readonly validityTimes: number;
  readonly accelerators: Accelerators;
  readonly slotOf = new ThreadSlots();
  readonly slots: ModelSlot[] = [];
  readonly spareSlots: number[] = [];
  /** Model timers, by slot; ties by thread id. */
  readonly modelTimers = new IndexedHeap(MODELS_MAX);
  readonly waiting = new WaitingSet(MODELS_MAX);
  readonly scarcity = new HighestScarcity(MODELS_MAX);
  readonly jobs = new JobTurns(MODELS_MAX);
  ctrl: Micros;
  now: Instant = ALWAYS;
  /** Number of offers of models beyond MODELS_MAX, and of reports of accelerators beyond gpusMax. */
  ignored = 0;

  constructor({ epoch, ctrl, validityTimes, gpusMax }: RankThreadOptions) {
    this.epoch = epoch;
    this.ctrl = ctrl;
    this.validityTimes = validityTimes ?? VALIDITY_TIMES;
    this.accelerators = new Accelerators(gpusMax);
  }
}
