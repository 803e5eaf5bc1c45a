/** Quotas of the applications at this gateway: requests a second, as a token bucket, and bytes of bodies at once. */
import type { Quota } from "@tutti/admin/api-keys";
import { TuttiError } from "@tutti/protocol";

/**
 * Applications whose use is recorded: names come from keys and tokens. Beyond, one without bytes in flight is
 * forgotten.
 */
export const QUOTA_APPS_MAX = 4_096;
/**
 * Bytes of an application without a quota. They are half of the limit for all bodies (BODIES_BYTES_MAX), so that no
 * application fills it alone.
 */
export const APP_BODIES_BYTES_MAX = 268_435_456;
/** Retry time for bytes: they come back as answers go out, at times that are not known in advance. */
const BYTES_RETRY_MS = 100;

interface Use {
  tokens: number;
  at: number;
  bytes: number;
}

export class Quotas {
  readonly #quotaOf: (app: string) => Quota | undefined;
  readonly #nowMs: () => number;
  readonly #appsMax: number;
  readonly #uses = new Map<string, Use>();

  constructor(
    quotaOf: (app: string) => Quota | undefined,
    nowMs: () => number = () => performance.now(),
    appsMax: number = QUOTA_APPS_MAX,
  ) {
    this.#quotaOf = quotaOf;
    this.#nowMs = nowMs;
    this.#appsMax = appsMax;
  }

  /**
   * Takes a request, and bytes until they are given back.
   *
   * @returns a function that gives the bytes back
   * @throws {TuttiError} QUOTA_EXCEEDED with the retry time; TOO_LARGE for a request that never fits
   */
  take(app: string, bytes: number): () => void {
    const giveBack = this.hold(app, bytes);
    const { requestsPerSecond: rate } = this.#quotaOf(app) ?? {};
    const now = this.#nowMs();
    try {
      if (rate !== undefined) spend(this.#useOf(app, now), { app, rate, now });
      return giveBack;
    } catch (error) {
      giveBack();
      throw error;
    }
  }

  /**
   * Takes bytes alone: those of a taken request beside its body.
   *
   * @returns a function that gives them back
   * @throws {TuttiError} QUOTA_EXCEEDED with the retry time; TOO_LARGE for a request that never fits
   */
  hold(app: string, bytes: number): () => void {
    const { bytesInFlight: bytesMax = APP_BODIES_BYTES_MAX } = this.#quotaOf(app) ?? {};
    const use = this.#useOf(app, this.#nowMs());
    if (bytes > bytesMax) {
      const text = `a request of "${app}" has at most ${bytesMax} bytes here, its quota; one without a Content-Length counts as the largest`;
      throw new TuttiError("TUTTI_TOO_LARGE", text);
    }
    if (use.bytes + bytes > bytesMax)
      throw exceeded(`"${app}" has ${use.bytes} bytes in flight of the ${bytesMax} of its quota`, BYTES_RETRY_MS);
    use.bytes += bytes;
    let isBack = false;
    return () => {
      if (isBack) return;
      isBack = true;
      use.bytes -= bytes;
    };
  }

  #useOf(app: string, now: number): Use {
    let use = this.#uses.get(app);
    if (use === undefined) {
      if (this.#uses.size >= this.#appsMax) this.#forgetOne();
      // A full bucket, whatever the quota.
      this.#uses.set(app, (use = { tokens: Infinity, at: now, bytes: 0 }));
    }
    return use;
  }

  #forgetOne(): void {
    for (const [app, { bytes }] of this.#uses) {
      if (bytes > 0) continue;
      this.#uses.delete(app);
      return;
    }
    throw new TuttiError("TUTTI_OVERLOADED", `${this.#appsMax} applications have requests in flight (QUOTA_APPS_MAX)`, {
      retryAfterMs: BYTES_RETRY_MS,
    });
  }
}

function spend(
  use: Use,
  { app, rate, now }: { readonly app: string; readonly rate: number; readonly now: number },
): void {
  const burst = Math.max(1, rate);
  use.tokens = Math.min(burst, use.tokens + ((now - use.at) / 1_000) * rate);
  use.at = now;
  if (use.tokens < 1) throw exceeded(`"${app}" may ask ${rate} times a second`, ((1 - use.tokens) / rate) * 1_000);
  use.tokens--;
}

const exceeded = (text: string, retryAfterMs: number): TuttiError =>
  new TuttiError("TUTTI_QUOTA_EXCEEDED", text, { retryAfterMs: Math.ceil(retryAfterMs) });
