/** A broken invariant. It stops the process: state that contradicts itself must not go on serving. */
export class AssertionError extends Error {
  override readonly name = "AssertionError";
}

/** Throws unless `condition` holds. For invariants only; expected outcomes are values, failures are TuttiErrors. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new AssertionError(message);
}

/** Marks a branch that the types say cannot be reached. */
export function unreachable(value: never): never {
  throw new AssertionError(`unreachable: ${JSON.stringify(value)}`);
}
