import { assert } from "./assert.ts";

declare const id: unique symbol;

/** An accelerator: the slot of its executor, a small integer that survives restarts. Ties break by the smaller one. */
export type GpuId = number & { readonly [id]: "GpuId" };
/** One ModelThread: a model (or one bucket of a model). */
export type ThreadId = number & { readonly [id]: "ThreadId" };
/** One incarnation of one actor: 48 random bits, new at every start, so that a quick restart cannot hide a death. */
export type ActorKey = number & { readonly [id]: "ActorKey" };
/** A request at its ingress: numbered from 1 within one incarnation. The number never comes from outside. */
export type RequestSeq = number & { readonly [id]: "RequestSeq" };
/** A batch: unique within its batcher's incarnation. */
export type BatchId = number & { readonly [id]: "BatchId" };

export const GPUS_MAX = 65_536;
export const BUCKETS_MAX = 64;
/** Added to a thread's id for the thread of the same model's jobs: ids have 32 bits, and models' numbers 25 of them. */
const JOBS = 2 ** 31;
export const ACTOR_KEY_MAX = 2 ** 48;

export function gpuId(value: number): GpuId {
  assert(Number.isInteger(value) && value >= 0 && value < GPUS_MAX, `${value} is no accelerator id`);
  return value as GpuId;
}

/** The thread of bucket `bucket` of the model with number `modelNumber`. */
export function threadId(modelNumber: number, bucket: number): ThreadId {
  assert(Number.isInteger(bucket) && bucket >= 0 && bucket < BUCKETS_MAX, `${bucket} is no bucket`);
  assert(Number.isInteger(modelNumber) && modelNumber >= 0 && modelNumber < 2 ** 25, `${modelNumber} is no model`);
  return (modelNumber * BUCKETS_MAX + bucket) as ThreadId;
}
/** The thread for jobs of the same model and bucket (docs/algorithms.md, A13). */
export const jobThreadOf = (thread: ThreadId): ThreadId =>
  isJobThread(thread) ? thread : ((thread + JOBS) as ThreadId);
/** The thread for requests of the same model and bucket. */
export const requestThreadOf = (thread: ThreadId): ThreadId => (thread % JOBS) as ThreadId;
export const isJobThread = (thread: ThreadId): boolean => thread >= JOBS;
export const modelNumberOf = (thread: ThreadId): number => Math.floor((thread % JOBS) / BUCKETS_MAX);
export const bucketOf = (thread: ThreadId): number => thread % BUCKETS_MAX;

export function actorKey(value: number): ActorKey {
  assert(Number.isSafeInteger(value) && value > 0 && value < ACTOR_KEY_MAX, `${value} is no actor key`);
  return value as ActorKey;
}
/** The key as a subject token: base 36, at most ten characters. */
export const actorToken = (key: ActorKey): string => key.toString(36);
