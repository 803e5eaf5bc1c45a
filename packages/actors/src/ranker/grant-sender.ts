import { GpuAsked, GpuGranted, type GrantAnswered } from "@tutti/protocol";
import type { Grant, RankEffects } from "@tutti/scheduling";
import { type ActorKey, type GpuId, type Instant, type ThreadId, isJobThread } from "@tutti/units";
import type { ActorRuntime } from "../runtime/actor-runtime.ts";

export interface GrantSenderOptions {
  readonly runtime: ActorRuntime;
  readonly batcherOf: (thread: ThreadId) => ActorKey | undefined;
  readonly epoch: () => number;
  readonly onGrant: (grant: Grant) => void;
}

/** Sends what the RankThread decides, counts it, and remembers when the newest grant of each accelerator was sent. */
export class GrantSender implements RankEffects {
  readonly #options: GrantSenderOptions;
  readonly #sent = new Map<GpuId, { readonly grantSeq: number; readonly sentAt: Instant }>();
  #grants = 0;
  /** Those of them that were to jobs. */
  #jobGrants = 0;
  #expired = 0;

  constructor(options: GrantSenderOptions) {
    this.#options = options;
  }

  /** Number of all grants so far. */
  get total(): number {
    return this.#grants;
  }

  grant(grant: Grant): void {
    const { runtime, batcherOf, onGrant } = this.#options;
    const batcher = batcherOf(grant.thread);
    if (batcher === undefined) return; // Its batcher died in between: validUntil gives the accelerator back.
    this.#grants++;
    if (isJobThread(grant.thread)) this.#jobGrants++;
    this.#sent.set(grant.gpu, { grantSeq: grant.grantSeq, sentAt: grant.sentAt });
    onGrant(grant);
    runtime.send(batcher, GpuGranted, grant);
  }

  askGpu(gpu: GpuId, executor: ActorKey, grantSeq: number): void {
    const { runtime, epoch } = this.#options;
    this.#expired++;
    runtime.send(executor, GpuAsked, { gpu, epoch: epoch(), grantSeq });
  }

  /** When the grant that this answers was sent; undefined: it isn't the newest of its accelerator. */
  sentAtOf({ gpu, grantSeq }: GrantAnswered): Instant | undefined {
    const sent = this.#sent.get(gpu);
    return sent?.grantSeq === grantSeq ? sent.sentAt : undefined;
  }

  clear(): void {
    this.#sent.clear();
  }

  figures(): Record<string, number> {
    return { grants: this.#grants, jobGrants: this.#jobGrants, expired: this.#expired };
  }
}
