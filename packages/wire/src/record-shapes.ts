/**
 * Literals for the messages of a request's path: slot i is the i-th declared field. They only affect speed.
 * frame.test.ts checks that each does the same as the loop over the names, so a field that is added and forgotten here
 * is found.
 */
import {
  BatchDispatched,
  BatchFinished,
  CandidateOffered,
  type Field,
  type Fields,
  GpuFreed,
  GpuGranted,
  GrantAnswered,
  JobOffered,
  type MessageType,
  type RefusalQueue,
  RequestArrived,
  RequestRefused,
} from "@tutti/protocol";

/** `never` fits every member's type: a layout fills slots in the order and the types of its fields. */
export type Slots = readonly never[];
export interface Shape<T> {
  gather(s: Slots): T;
  spread(value: T, s: unknown[]): void;
}

export const SHAPES = new Map<Fields, Shape<unknown>>();
function shape<T>(type: MessageType<T>, of: Shape<T>): void {
  if (type.fields !== undefined) SHAPES.set(type.fields, of);
}
/** The items of a list field. */
function itemShape<T>(list: Field<unknown> | undefined, of: Shape<T>): void {
  if (list?.of !== undefined) SHAPES.set(list.of, of);
}

shape(RequestArrived, {
  gather: (s) => ({
    thread: s[0]!,
    app: s[1]!,
    term: s[2]!,
    arrivalSeq: s[3]!,
    seq: s[4]!,
    arrivedAt: s[5]!,
    deadline: s[6]!,
    slo: s[7]!,
    size: s[8]!,
    priority: s[9]!,
    units: s[10]!,
  }),
  spread(value, s) {
    s[0] = value.thread;
    s[1] = value.app;
    s[2] = value.term;
    s[3] = value.arrivalSeq;
    s[4] = value.seq;
    s[5] = value.arrivedAt;
    s[6] = value.deadline;
    s[7] = value.slo;
    s[8] = value.size;
    s[9] = value.priority;
    s[10] = value.units;
  },
});

shape(RequestRefused, {
  gather: (s) => ({ thread: s[0]!, code: s[1]!, seq: s[2]!, feasible: s[3]!, queue: s[4]! }),
  spread(value, s) {
    s[0] = value.thread;
    s[1] = value.code;
    s[2] = value.seq;
    s[3] = value.feasible;
    s[4] = value.queue;
  },
});
itemShape<RefusalQueue>(RequestRefused.fields?.["queue"], {
  gather: (s) => ({
    waitedFor: s[0]!,
    queued: s[1]!,
    inFlight: s[2]!,
    accelerators: s[3]!,
    idle: s[4]!,
    alone: s[5]!,
  }),
  spread(value, s) {
    s[0] = value.waitedFor;
    s[1] = value.queued;
    s[2] = value.inFlight;
    s[3] = value.accelerators;
    s[4] = value.idle;
    s[5] = value.alone;
  },
});

shape(CandidateOffered, {
  gather: (s) => ({
    thread: s[0]!,
    batchSize: s[1]!,
    term: s[2]!,
    offerSeq: s[3]!,
    execAt: s[4]!,
    latest: s[5]!,
    delay: s[6]!,
    unfit: s[7]!,
  }),
  spread(value, s) {
    s[0] = value.thread;
    s[1] = value.batchSize;
    s[2] = value.term;
    s[3] = value.offerSeq;
    s[4] = value.execAt;
    s[5] = value.latest;
    s[6] = value.delay;
    s[7] = value.unfit;
  },
});

shape(JobOffered, {
  gather: (s) => ({
    thread: s[0]!,
    batchSize: s[1]!,
    term: s[2]!,
    offerSeq: s[3]!,
    execAt: s[4]!,
    latest: s[5]!,
    delay: s[6]!,
    takes: s[7]!,
    unfit: s[8]!,
  }),
  spread(value, s) {
    s[0] = value.thread;
    s[1] = value.batchSize;
    s[2] = value.term;
    s[3] = value.offerSeq;
    s[4] = value.execAt;
    s[5] = value.latest;
    s[6] = value.delay;
    s[7] = value.takes;
    s[8] = value.unfit;
  },
});

shape(GpuGranted, {
  gather: (s) => ({
    thread: s[0]!,
    gpu: s[1]!,
    term: s[2]!,
    offerSeq: s[3]!,
    executor: s[4]!,
    epoch: s[5]!,
    grantSeq: s[6]!,
    freeAt: s[7]!,
    sentAt: s[8]!,
    validUntil: s[9]!,
    scarcity: s[10]!,
  }),
  spread(value, s) {
    s[0] = value.thread;
    s[1] = value.gpu;
    s[2] = value.term;
    s[3] = value.offerSeq;
    s[4] = value.executor;
    s[5] = value.epoch;
    s[6] = value.grantSeq;
    s[7] = value.freeAt;
    s[8] = value.sentAt;
    s[9] = value.validUntil;
    s[10] = value.scarcity;
  },
});

shape(GrantAnswered, {
  gather: (s) => ({
    thread: s[0]!,
    gpu: s[1]!,
    term: s[2]!,
    offerSeq: s[3]!,
    epoch: s[4]!,
    grantSeq: s[5]!,
    used: s[6]!,
    freeAt: s[7]!,
    scarcity: s[8]!,
  }),
  spread(value, s) {
    s[0] = value.thread;
    s[1] = value.gpu;
    s[2] = value.term;
    s[3] = value.offerSeq;
    s[4] = value.epoch;
    s[5] = value.grantSeq;
    s[6] = value.used;
    s[7] = value.freeAt;
    s[8] = value.scarcity;
  },
});

shape(BatchDispatched, {
  gather: (s) => ({
    batchId: s[0]!,
    thread: s[1]!,
    gpu: s[2]!,
    term: s[3]!,
    epoch: s[4]!,
    grantSeq: s[5]!,
    executor: s[6]!,
    ranker: s[7]!,
    validUntil: s[8]!,
    grantedAt: s[9]!,
    sentAt: s[10]!,
    startAt: s[11]!,
    latest: s[12]!,
    frontrun: s[13]!,
    expectedRun: s[14]!,
    ingresses: s[15]!,
    requests: s[16]!,
  }),
  spread(value, s) {
    s[0] = value.batchId;
    s[1] = value.thread;
    s[2] = value.gpu;
    s[3] = value.term;
    s[4] = value.epoch;
    s[5] = value.grantSeq;
    s[6] = value.executor;
    s[7] = value.ranker;
    s[8] = value.validUntil;
    s[9] = value.grantedAt;
    s[10] = value.sentAt;
    s[11] = value.startAt;
    s[12] = value.latest;
    s[13] = value.frontrun;
    s[14] = value.expectedRun;
    s[15] = value.ingresses;
    s[16] = value.requests;
  },
});
itemShape<BatchDispatched["requests"][number]>(BatchDispatched.fields?.["requests"], {
  gather: (s) => ({ seq: s[0]! }),
  spread(value, s) {
    s[0] = value.seq;
  },
});
itemShape<BatchDispatched["ingresses"][number]>(BatchDispatched.fields?.["ingresses"], {
  gather: (s) => ({ ingress: s[0]!, token: s[1]!, count: s[2]! }),
  spread(value, s) {
    s[0] = value.ingress;
    s[1] = value.token;
    s[2] = value.count;
  },
});

shape(BatchFinished, {
  gather: (s) => ({
    batchId: s[0]!,
    thread: s[1]!,
    gpu: s[2]!,
    batchSize: s[3]!,
    failed: s[4]!,
    executor: s[5]!,
    grantedAt: s[6]!,
    receivedAt: s[7]!,
    readyAt: s[8]!,
    startedAt: s[9]!,
    finishedAt: s[10]!,
    run: s[11]!,
  }),
  spread(value, s) {
    s[0] = value.batchId;
    s[1] = value.thread;
    s[2] = value.gpu;
    s[3] = value.batchSize;
    s[4] = value.failed;
    s[5] = value.executor;
    s[6] = value.grantedAt;
    s[7] = value.receivedAt;
    s[8] = value.readyAt;
    s[9] = value.startedAt;
    s[10] = value.finishedAt;
    s[11] = value.run;
  },
});

shape(GpuFreed, {
  gather: (s) => ({ gpu: s[0]!, executor: s[1]!, epoch: s[2]!, grantSeq: s[3]!, freeAt: s[4]! }),
  spread(value, s) {
    s[0] = value.gpu;
    s[1] = value.executor;
    s[2] = value.epoch;
    s[3] = value.grantSeq;
    s[4] = value.freeAt;
  },
});
