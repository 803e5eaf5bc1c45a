/** One actor's view of a bus that all actors of its process share. */
import type {
  Bus,
  BusFailure,
  BusStatus,
  Delivery,
  DeliverySubscription,
  PublishOptions,
  RequestOptions,
  ServiceInfo,
  SubscribeOptions,
  Subscription,
} from "./bus.ts";
import type { HostBus, LocalInterest } from "./host-bus.ts";
import { answerServices } from "./services.ts";
import { isPattern } from "./subject.ts";

export class ActorBus implements Bus {
  readonly #host: HostBus;
  readonly #startedAt: Date;
  readonly #listeners = new Set<(status: BusStatus) => void>();
  readonly #subscriptions = new Set<DeliverySubscription>();
  readonly #requests = new Map<number, Pending>();
  readonly #underStatus: Subscription;
  #inbox: string | undefined;
  #token = 0;
  #isClosed = false;

  constructor(host: HostBus, startedAt: Date) {
    this.#host = host;
    this.#startedAt = startedAt;
    this.#underStatus = host.under.onStatus((status) => {
      if (status.kind === "disconnected" || status.kind === "closed") this.#failRequests();
      for (const listener of this.#listeners) listener(status);
    });
  }

  get payloadMax(): number {
    return this.#host.under.payloadMax;
  }
  get connected(): boolean {
    return !this.#isClosed && this.#host.under.connected;
  }

  publish(subject: string, payload: Uint8Array, options?: PublishOptions): boolean {
    if (this.#isClosed) return false;
    return this.#host.publish(this, subject, payload, options);
  }

  subscribe(
    pattern: string,
    onDelivery: (delivery: Delivery) => void,
    options: SubscribeOptions = {},
  ): DeliverySubscription {
    if (this.#isClosed || !isPattern(pattern)) {
      this.tell({ kind: "error", text: `${pattern} cannot be subscribed to` });
      return { stop: () => undefined, drain: (done) => this.#host.later(() => this.perform(done)) };
    }
    const subscription = this.#host.subscribe({
      bus: this,
      pattern,
      queue: options.queue,
      isExclusive: options.exclusive === true || isPrivateInbox(pattern),
      onDelivery,
      isLive: true,
    });
    this.#subscriptions.add(subscription);
    return {
      stop: () => {
        this.#subscriptions.delete(subscription);
        subscription.stop();
      },
      drain: (done) => {
        this.#subscriptions.delete(subscription);
        subscription.drain(done);
      },
    };
  }

  request(
    subject: string,
    payload: Uint8Array,
    options: RequestOptions,
    done: (result: Delivery | BusFailure) => void,
  ): void {
    if (!this.#host.hears(subject)) {
      if (this.#isClosed) return this.#host.later(() => this.perform(() => done({ failure: "closed" })));
      return this.#host.under.request(subject, payload, options, (result) => this.perform(() => done(result)));
    }
    const token = ++this.#token;
    const inbox = (this.#inbox ??= this.#openInbox());
    const timer = this.#host.startTimer(options.timeoutMs, () => this.#settle(token, { failure: "timeout" }));
    this.#requests.set(token, { done, timer });
    const { timeoutMs: _, ...rest } = options;
    if (this.publish(subject, payload, { ...rest, reply: `${inbox}.${token.toString(36)}` })) return;
    const failure = payload.length > this.payloadMax - 1_024 ? "too-large" : "closed";
    this.#host.later(() => this.#settle(token, { failure }));
  }

  #openInbox(): string {
    const inbox = this.newInbox();
    this.subscribe(
      `${inbox}.*`,
      (delivery) => {
        // A subscriber here hears the request, so the server's "no responders" is no answer.
        if (delivery.payload.length === 0 && delivery.header("Status") === "503") return;
        this.#settle(parseInt(delivery.subject.slice(inbox.length + 1), 36), delivery);
      },
      { exclusive: true },
    );
    return inbox;
  }

  isNear(subject: string): boolean {
    return this.#host.hears(subject);
  }

  publishNear(subject: string, segments: readonly Uint8Array[]): boolean {
    return !this.#isClosed && this.#host.publishNear(subject, segments);
  }

  newInbox(): string {
    return this.#host.under.newInbox();
  }

  flush(done: (reached: boolean) => void): void {
    if (this.#isClosed) return this.#host.later(() => this.perform(() => done(false)));
    this.#host.under.flush((reached) => this.perform(() => done(reached)));
  }

  onStatus(listener: (status: BusStatus) => void): Subscription {
    this.#listeners.add(listener);
    return { stop: () => this.#listeners.delete(listener) };
  }

  announce(service: ServiceInfo): Subscription {
    return answerServices(this, service, this.#startedAt);
  }

  /** Ends this actor's part; the connection stays for the others. */
  close(done: () => void): void {
    if (this.#isClosed) return this.#host.later(() => this.perform(done));
    this.#host.under.flush(() => {
      this.#isClosed = true;
      for (const subscription of this.#subscriptions) subscription.stop();
      this.#subscriptions.clear();
      this.#failRequests();
      this.#underStatus.stop();
      this.tell({ kind: "closed", reason: "closed by its owner" });
      this.#host.later(() => this.perform(done));
    });
  }

  /** For the host: delivers a message to one of this actor's subscriptions. */
  deliver(interest: LocalInterest, delivery: Delivery): void {
    if (!interest.isLive) return;
    try {
      interest.onDelivery(delivery);
    } catch (thrown) {
      this.#report(thrown);
    }
  }

  /** Runs a callback of the owner. If it throws, the error is reported and nothing else breaks. */
  perform(run: () => void): void {
    try {
      run();
    } catch (thrown) {
      this.#report(thrown);
    }
  }

  tell(status: BusStatus): void {
    this.#host.later(() => {
      for (const listener of this.#listeners) listener(status);
    });
  }

  #report(thrown: unknown): void {
    if (this.#listeners.size === 0)
      this.#host.later(() => {
        throw thrown;
      });
    this.tell({ kind: "error", text: thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown) });
  }

  #settle(token: number, result: Delivery | BusFailure): void {
    const pending = this.#requests.get(token);
    if (pending === undefined) return;
    this.#requests.delete(token);
    pending.timer.stop();
    this.perform(() => pending.done(result));
  }

  #failRequests(): void {
    for (const token of [...this.#requests.keys()]) this.#settle(token, { failure: "closed" });
  }
}

interface Pending {
  readonly done: (result: Delivery | BusFailure) => void;
  readonly timer: { stop(): void };
}

/** True for an inbox, which belongs to the actor that made it. */
const isPrivateInbox = (pattern: string): boolean => pattern.startsWith("_INBOX") && !pattern.endsWith(">");
