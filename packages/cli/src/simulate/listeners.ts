import type { RunListener } from "@tutti/simulator";

/** One listener that forwards everything to each of `listeners`; undefined for none, which costs the run nothing. */
export function allOf(listeners: readonly (RunListener | undefined)[]): RunListener | undefined {
  const present = listeners.filter((listener) => listener !== undefined);
  if (present.length <= 1) return present[0];
  return {
    arrived: (request) => {
      for (const listener of present) listener.arrived?.(request);
    },
    dispatched: (batch, at) => {
      for (const listener of present) listener.dispatched?.(batch, at);
    },
    refused: (request, cause, at) => {
      for (const listener of present) listener.refused(request, cause, at);
    },
    finished: (batch, begin, end, completed) => {
      for (const listener of present) listener.finished(batch, begin, end, completed);
    },
  };
}
