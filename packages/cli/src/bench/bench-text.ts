/** A measurement for a terminal. */
import { type BenchReport, type Percentiles, type TrialProgress, refusals, verdicts } from "@tutti/bench";
import { renderTable } from "@tutti/admin";

export function renderBench(report: BenchReport): string {
  const { trials, streams, goodput } = report;
  const lines = [
    renderTable(
      ["offered", "good r/s", "bad", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "max ms", "late", "lost", "refused"],
      trials.map((trial) => [
        rate(trial.offeredRps),
        rate(trial.goodRps),
        share(trial.badRate),
        ...quantiles(trial.latencyMs, ["p50", "p90", "p99", "p999", "max"]),
        ...[String(trial.late), String(trial.lost), refusals(trial.refused) || "-"],
      ]),
    ),
  ];
  if (streams.length > 1)
    lines.push(
      "",
      renderTable(
        ["offered", "stream", "SLO ms", "offered r/s", "good r/s", "bad", "p50 ms", "p99 ms", "refused"],
        trials.flatMap((trial) =>
          trial.streams.map((stream) => [
            ...[rate(trial.offeredRps), stream.name, String(stream.sloMs)],
            ...[rate(stream.offeredRps), rate(stream.goodRps), share(stream.badRate)],
            ...[...quantiles(stream.latencyMs, ["p50", "p99"]), refusals(stream.refused) || "-"],
          ]),
        ),
      ),
    );
  lines.push("", ...trials.map(clientLine));
  if (goodput !== undefined) lines.push(goodputLine(report));
  const repeated = trials.reduce((sum, trial) => sum + trial.repeated, 0);
  if (repeated > 0) lines.push(`${repeated} answers came to requests that had theirs: that should not happen`);
  lines.push(...verdicts(report));
  return lines.join("\n");
}

const clientLine = ({ offeredRps, client }: BenchReport["trials"][number]): string => {
  const { sendLagMs, eventLoopDelayMs, utilization } = client;
  const lag = quantiles(sendLagMs, ["p50", "p99", "max"]).join("/");
  const delay = quantiles(eventLoopDelayMs, ["p50", "p99", "max"]).join("/");
  return `client at ${rate(offeredRps)} r/s: left ${lag} ms late, event loop ${delay} ms late (p50/p99/max), thread ${share(utilization)} in use`;
};

function goodputLine({ goodput, trials }: BenchReport): string {
  if (goodput === undefined) return "";
  const { goodputRps, badRps, limitedByClient } = goodput;
  if (goodputRps === 0 && limitedByClient)
    return "goodput: unknown, since the client was the bottleneck from the first rate on";
  const bad = badRps === undefined ? "" : `; ${rate(badRps)} r/s were too many`;
  const least = limitedByClient ? "at least " : "";
  return `goodput: ${least}${rate(goodputRps)} r/s with at most 1 % bad for every model${bad} (${trials.length} trials)`;
}

export function progressNote({ rate: asked, isWarmUp, settled, good, p50, p99, inFlight }: TrialProgress): string {
  const pace = asked > 0 ? `${rate(asked)} r/s` : "trace";
  if (isWarmUp) return `${pace}: warm-up`;
  const inTime = settled > 0 ? `${((100 * good) / settled).toFixed(1)} % in time` : "no answers yet";
  return `${pace}: ${inTime}, p50 ${p50 ?? "-"}, p99 ${p99 ?? "-"} ms, ${inFlight} under way`;
}

const rate = (value: number): string => value.toLocaleString("en-US", { maximumFractionDigits: value < 100 ? 1 : 0 });
const share = (value: number): string => `${(100 * value).toFixed(2)} %`;
const quantiles = (latency: Percentiles, names: readonly (keyof Percentiles)[]): string[] =>
  names.map((name) => latency[name]?.toFixed(2) ?? "-");
