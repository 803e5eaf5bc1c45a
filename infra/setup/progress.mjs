/**
 * Progress of the setup on stderr. It prints one line when a step starts, one when it ends, and nothing for work that
 * is already done.
 */

const STILL_EVERY_MS = 10_000;

/**
 * @template T
 * @param {(line: string) => void} tell
 * @param {string} what - "installing dependencies"
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function step(tell, what, work) {
  const startedAt = Date.now();
  const seconds = () => `${((Date.now() - startedAt) / 1000).toFixed(1)} s`;
  tell(`${what} …`);
  const still = setInterval(() => tell(`${what}: still at it after ${seconds()}`), STILL_EVERY_MS);
  try {
    const result = await work();
    tell(`${what}: done in ${seconds()}`);
    return result;
  } finally {
    clearInterval(still);
  }
}

/** @param {string} line */
export function say(line) {
  process.stderr.write(`setup: ${line}\n`);
}

/** A failure that the user can fix: its message says how, and no stack is shown. */
export class SetupError extends Error {
  /** @override */
  name = "SetupError";
}
