/** `tutti rollout`: changes, follows and shows how requests are shared between a model's versions. */
import { ModelRegistry, RouteRegistry } from "@tutti/client/registries";
import { type Route, noModelError, publicNameOf, stateOf } from "@tutti/protocol";
import { stepTime } from "@tutti/planning/live";
import type { Store } from "@tutti/ports/store";
import { printable } from "@tutti/units";
import { withCluster } from "../cluster/connection.ts";
import { CommandError, EXIT } from "../failure.ts";
import { note, print } from "../print.ts";
import { waitOption } from "../seconds-option.ts";
import { ClusterView } from "../operator/cluster-view.ts";
import { type RolloutCommandOptions, type RolloutOrder, orderOf } from "./rollout-options.ts";
import { type RolloutReport, rolloutOf } from "./rollout-report.ts";
import { renderRollout, shadowNote } from "./rollout-text.ts";

/** Polling period for a rollout in progress. */
const LOOK_MS = 250;
/** The planner checks once a second; after so long it counts as absent. */
const LATE_MS = 10_000;

export function rollout(model: string | undefined, options: RolloutCommandOptions): Promise<void> {
  const order = orderOf(model, options);
  const waitMs = waitOption(options.wait);
  return withCluster({ ...options, name: "tutti-rollout" }, async ({ control: bus, store }, { cluster }) => {
    const routes = new RouteRegistry(store);
    if (order.kind === "show") {
      const view = new ClusterView();
      const reportsBy = await reporter(store, routes, model);
      const listening = view.listen(bus, cluster);
      await view.until(() => view.hasReports(2), waitMs);
      listening.stop();
      return show(reportsBy(view), options, model);
    }
    const changed = await change(routes, model!, order);
    const isRamp = order.kind === "share" && order.ramp !== undefined;
    if (isRamp && options.json !== true) process.stderr.write(shadowNote(stateOf(changed!)));
    if (isRamp && options.detach !== true) return follow(routes, changed!, options);
    const reportsBy = await reporter(store, routes, model);
    return show(reportsBy(new ClusterView()), options, model);
  });
}

async function change(routes: RouteRegistry, name: string, order: RolloutOrder): Promise<Route | undefined> {
  switch (order.kind) {
    case "share":
      return routes.setShare(name, order);
    case "default":
      return routes.setDefault(name, order.version);
    case "shadow": {
      const { version, percent, tolerance } = order;
      return routes.setShadow(name, { version, percent, ...(tolerance !== undefined && { tolerance }) });
    }
    case "end-shadow":
      return routes.setShadow(name, undefined);
    case "back":
      return routes.back(name);
    case "clear":
      if (await routes.clear(name)) return undefined;
      await routes.versions(name); // a name that no model has is the likelier mistake
      throw new CommandError(`requests to "${name}" are not shared`);
    case "show":
      return routes.get(name);
  }
}

/**
 * Reports on one model, or on every model that has several versions or a route.
 *
 * @throws {TuttiError} NOT_FOUND
 */
async function reporter(
  store: Store,
  routes: RouteRegistry,
  model: string | undefined,
): Promise<(view: ClusterView) => RolloutReport[]> {
  const [listed, known] = await Promise.all([new ModelRegistry(store).list(), routes.list()]);
  const routed = new Map(known.map((route) => [route.name, route]));
  const names = new Set(listed.map(({ spec }) => publicNameOf(spec.name)));
  if (model !== undefined && !names.has(model)) throw noModelError(model, names);
  const hasVersions = (name: string): boolean => listed.some(({ spec }) => spec.name.startsWith(`${name}/`));
  const shown = model !== undefined ? [model] : [...names].filter((name) => routed.has(name) || hasVersions(name));
  return (view) => shown.map((name) => rolloutOf(name, listed, routed.get(name), view));
}

function show(found: readonly RolloutReport[], options: RolloutCommandOptions, model: string | undefined): void {
  if (options.json === true) print(JSON.stringify(model === undefined ? found : found[0]));
  else
    print(
      found.map(renderRollout).join("\n\n") ||
        "no model has several versions: `tutti load model.onnx --name mlp --version 2`",
    );
}

/** Follows a rollout until it is done or rolled back. Ending this command does not end the rollout. */
async function follow(routes: RouteRegistry, begun: Route, options: RolloutCommandOptions): Promise<void> {
  const { name } = begun;
  const say = (text: string): void => {
    if (options.json !== true) note(`${name}: ${text}`);
  };
  const ramp = stateOf(begun).ramp!;
  let step = -1;
  let movedAt = performance.now();
  for (;;) {
    const route = await routes.get(name);
    const state = route === undefined ? undefined : stateOf(route);
    if (state?.ramp === undefined || state.ramp.startedAt !== ramp.startedAt) {
      const isDone = state?.by === "operator" && state.why.endsWith("step by step") && state.ramp === undefined;
      const why = state?.why ?? "its route was taken away";
      if (options.json === true) print(JSON.stringify({ name, done: isDone, why }));
      else print(`${name}: ${printable(why)}`);
      if (!isDone) process.exitCode = EXIT.failed;
      return;
    }
    if (state.ramp.step !== step) {
      step = state.ramp.step;
      movedAt = performance.now();
      say(`${state.ramp.steps[step]} % to version ${ramp.version}`);
    } else if (performance.now() - movedAt > stepTime(ramp) / 1_000 + LATE_MS) {
      movedAt = Infinity;
      say("nothing moves: is a planner there, and does the version serve? (`tutti actors`, `tutti models`)");
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}
