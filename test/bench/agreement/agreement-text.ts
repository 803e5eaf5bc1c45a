import type { Agreement } from "./agreement.ts";
import type { Compared } from "./comparison.ts";

const NAMES: Readonly<Record<Compared["quantity"], string>> = {
  goodRps: "good requests/s",
  batchMean: "mean batch",
  p99Ms: "p99 of answers (ms)",
  refusedShare: "refused (%)",
};

/** Both results side by side, what the simulation was given, and in a last line what parts them. */
export function renderAgreement({ workload, offeredRps, compared, delays, sendLagMs }: Agreement): string {
  const rows = compared.map((one) => {
    const numbers = [valueText(one, one.live), valueText(one, one.simulated), apartText(one)];
    return `  ${NAMES[one.quantity].padEnd(20)}${numbers.map((text) => text.padStart(12)).join("")}`;
  });
  const apart = compared.filter(({ agrees }) => !agrees);
  const parted = apart.map((one) => {
    const { quantity, live, simulated } = one;
    return `${NAMES[quantity]} ${valueText(one, live)} live, ${valueText(one, simulated)} simulated`;
  });
  return [
    `${workload}: ${offeredRps.toFixed(0)} r/s offered`,
    `  ${["live", "simulated", "apart"]
      .map((text) => text.padStart(12))
      .join("")
      .padStart(56)}`,
    ...rows,
    `  set aside (µs)      ${listed(delays.reserved)}`,
    `  passed (µs)         ${listed(delays.measured)}`,
    `  started late        ${(100 * delays.lateStarts).toFixed(1)} % of batches`,
    `  load generator      p99 ${sendLagMs.toFixed(1)} ms late`,
    `${workload}: ${apart.length === 0 ? "live and simulated agree" : `apart in ${parted.join("; ")}`}`,
    "",
  ].join("\n");
}

function valueText({ quantity }: Compared, value: number): string {
  if (quantity === "refusedShare") return (100 * value).toFixed(2);
  return value.toFixed(quantity === "goodRps" ? 0 : 2);
}

const apartText = ({ quantity, apart }: Compared): string =>
  `${(100 * apart).toFixed(1)} ${quantity === "refusedShare" ? "points" : "%"}`;

const listed = (all: Readonly<Record<string, number>>): string =>
  Object.entries(all)
    .map(([name, us]) => `${name} ${us}`)
    .join(", ");
