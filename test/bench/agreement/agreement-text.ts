import type { Agreement } from "./agreement.ts";

/** Both results side by side, with their parameters. */
export function renderAgreement(agreement: Agreement): string {
  const { slowdown, inflationUs, live, simulated, differences, reservedUs, measuredUs, lateStarts, sendLagMs } =
    agreement;
  const row = (name: string, digits: number, key: keyof Agreement["live"]): string =>
    [
      name.padEnd(20),
      live[key].toFixed(digits).padStart(10),
      simulated[key].toFixed(digits).padStart(10),
      `${(100 * differences[key]).toFixed(1)} %`.padStart(10),
    ].join("");
  const delays = (all: Readonly<Record<string, number>>): string =>
    Object.entries(all)
      .map(([name, us]) => `${name} ${us}`)
      .join(", ");
  return [
    `${agreement.offeredRps.toFixed(0)} r/s offered${slowdown === 1 ? "" : ` in slow motion, ${slowdown} times`}; refused ${JSON.stringify(agreement.refused)}, late ${agreement.late}`,
    `${"".padEnd(20)}${"live".padStart(10)}${"simulated".padStart(10)}${"apart".padStart(10)}`,
    row("good requests/s", 1, "goodRps"),
    row("mean batch", 2, "batchMean"),
    row("busy share", 3, "busyShare"),
    `set aside (µs)       ${delays(reservedUs)}`,
    `passed (µs)          ${delays(measuredUs)}`,
    `l(8) planned (µs)    ${inflationUs} more than the profile says`,
    `started late         ${(100 * lateStarts).toFixed(1)} % of batches`,
    `load generator late  p50 ${sendLagMs.p50} ms, p99 ${sendLagMs.p99} ms`,
    "",
  ].join("\n");
}
