import type { DataClient, DataHandlers } from "@tutti/ports/pull";
import { type ActorKey, type Micros, millis } from "@tutti/units";

/** The data plane of one executor in virtual time: handlers of ingresses are called a hop later. */
export function virtualDataClient({
  handlers,
  hop,
  later,
  life,
}: {
  readonly handlers: ReadonlyMap<ActorKey, DataHandlers>;
  readonly hop: Micros;
  readonly later: (delay: Micros, run: () => void) => void;
  readonly life: { readonly alive: boolean };
}): DataClient {
  return {
    pull: (peer, pull, timeoutMs, done) => {
      let answered = false;
      const once: typeof done = (outcome) => {
        if (answered || !life.alive) return;
        answered = true;
        done(outcome);
      };
      later(millis(timeoutMs), () => once({ failure: "timeout" }));
      later(hop, () =>
        handlers
          .get(peer.key)
          ?.onPull(pull, (items) => later(hop, () => once(items === undefined ? { failure: "forbidden" } : { items }))),
      );
    },
    push: (peer, results) => {
      if (life.alive) later(hop, () => handlers.get(peer.key)?.onResults(results));
    },
    forget: () => undefined,
    close: (done) => done(),
  };
}

/** Handlers that hold everything back until `resume`: a data plane that stalls. */
export function stalledHandlers({ onPull, onResults }: DataHandlers): {
  readonly stalled: DataHandlers;
  readonly resume: () => void;
} {
  const missed: (() => void)[] = [];
  return {
    stalled: {
      onPull: (pull, reply) => void missed.push(() => onPull(pull, reply)),
      onResults: (results) => void missed.push(() => onResults(results)),
    },
    resume: () => {
      for (const run of missed) run();
    },
  };
}
