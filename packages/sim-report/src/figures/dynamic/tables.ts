/**
 * Finish rate against SLO, as in Orloj's Tables 2 to 5: kinds of distributions, real tasks and static models, at two
 * settings of load and costs.
 */
import { type Drawing, type Figure, type Scale, type System, pick, systems } from "../figure.ts";
import { type Case, type Rate, byCase, bySlo, finishRates, picture, rateRow, slosOf } from "./finish-rates.ts";

interface Table {
  readonly name: string;
  readonly title: string;
  readonly paper: string;
  readonly file: string;
  readonly settings: readonly Setting[];
  readonly cases: readonly string[];
  readonly quickCases: readonly string[];
  readonly setOf: (name: string) => Readonly<Record<string, string>>;
  /** Cases that have a picture by SLO of their own. */
  readonly pictured: readonly string[];
  readonly systems: () => readonly System[];
  readonly durationS: number;
}

/** A choice of what the paper leaves open: load, and the cost of batches. */
interface Setting {
  readonly name: string;
  readonly text: string;
  readonly set: Readonly<Record<string, string>>;
}

export const SEPARATING: Setting = {
  name: "separating",
  text: "c0 25 ms, c1 0.2, a batch of one takes its request's time, load 1.3",
  set: { costs: "separating" },
};
const PAPER_FORM: Setting = {
  name: "paper-form",
  text: "c0 25 ms, c1 0.2 also of a batch of one, load 1.3",
  set: { costs: "paper-form" },
};
const BATCHING: Setting = {
  name: "batching",
  text: "c0 60 ms, c1 0.1 also of a batch of one, load 1.2",
  set: { costs: "batching" },
};

const RIVALS = ["default", "orloj", "orloj:urgent", "knows-lengths", "deferred", "clockwork", "nexus", "clipper"];
const MODES = ["one", "two", "three", "four", "five", "six", "seven", "eight"];

/** A figure and the table that it is of. */
type TableFigure = Figure & { readonly table: Table };

function figureOf(table: Table): TableFigure {
  return {
    table,
    ...{ name: table.name, title: table.title, paper: table.paper },
    draw: async (bench, scale) => {
      const cases = pick(scale, table.cases, table.quickCases);
      const slos = slosOf(scale);
      const drawings = await Promise.all(
        table.settings.map(async (setting): Promise<Drawing> => {
          const search = {
            file: table.file,
            cases: cases.map((name): Case => ({ name, set: { ...setting.set, ...table.setOf(name) } })),
            ...{ systems: table.systems(), slos, scale, durationS: table.durationS },
          };
          return drawn(await finishRates(bench, search), table, setting, scale);
        }),
      );
      return { charts: drawings.flatMap(({ charts }) => charts), rows: drawings.flatMap(({ rows }) => rows) };
    },
  };
}

function drawn(rates: readonly Rate[], table: Table, setting: Setting, scale: Scale): Drawing {
  const atThree = rates.filter(({ sloP99 }) => sloP99 === "3");
  const about = { title: table.title, note: `${setting.text}; SLO 3 × P99` };
  const all =
    table.name === "dynamic-modes"
      ? [
          picture(atThree, ({ of }) => 1 + MODES.indexOf(of.name.split("-")[0]!), {
            ...about,
            ...{ name: `${table.name}-${setting.name}`, x: { name: "modes" } },
          }),
        ]
      : byCase(atThree, { ...about, name: `${table.name}-${setting.name}` });
  const pictured = pick(scale, table.pictured, []);
  const each = pictured.map((name) =>
    bySlo(
      rates.filter(({ of }) => of.name === name),
      { name: `${table.name}-${setting.name}-${name}`, title: `${table.title}: ${name}`, note: setting.text },
    ),
  );
  return { charts: [...all, ...each], rows: rates.map((rate) => rateRow(rate, `${rate.of.name}, ${setting.name}`)) };
}

export const modes = figureOf({
  name: "dynamic-modes",
  title: "Finish rate by modes of the running time",
  paper: "Table 3: one to eight modes; Orloj above 0.9 at 3 × P99, Clockwork about 0.55, Nexus and Clipper near 0.1",
  file: "dynamic-modes",
  settings: [SEPARATING, PAPER_FORM, BATCHING].map((one) => ({ ...one, set: { ...one.set, hints: "none" } })),
  cases: MODES.map((count) => `${count}-modal`),
  quickCases: ["one-modal", "three-modal"],
  setOf: (name) => ({ modes: String(1 + MODES.indexOf(name.split("-")[0]!)) }),
  pictured: ["one-modal", "three-modal", "eight-modal"],
  systems: () => systems(...RIVALS),
  durationS: 605,
});

export const peaks = figureOf({
  name: "dynamic-peaks",
  title: "Finish rate by the spread of two modes",
  paper: "Table 2: σ of each of two modes; Orloj 0.90 to 0.98 at 3 × P99",
  file: "dynamic-peaks",
  settings: [SEPARATING, BATCHING],
  cases: ["std-0.5", "std-1", "std-2", "std-2/0.5", "std-0.5/2", "more-short", "more-long"],
  quickCases: ["std-1", "more-long"],
  setOf: (name) => ({ case: name }),
  pictured: ["more-short", "more-long"],
  systems: () => systems(...RIVALS),
  durationS: 605,
});

export const tasks = figureOf({
  name: "dynamic-tasks",
  title: "Finish rate on the ten real tasks",
  paper:
    "Table 5: Orloj above 0.85 at 3 × P99 but for Blenderbot; Nexus and Clipper beside it where P99 is far above the mean",
  file: "dynamic-tasks",
  settings: [
    { ...SEPARATING, text: "c0 a tenth of the mean, c1 0.2, load 1.3" },
    { ...BATCHING, text: "c0 a tenth of the mean, c1 0.1 also of a batch of one, load 1.2" },
  ],
  cases: [
    ...["rdinet-cifar", "skipnet-imagenet", "blenderbot-convAI", "blenderbot-cornell", "gpt-convAI", "gpt-cornell"],
    ...["bart-cnn", "t5-cnn", "fsmt-wmt", "mbart-wmt"],
  ],
  quickCases: ["gpt-cornell"],
  setOf: (name) => ({ task: name }),
  pictured: ["gpt-cornell", "bart-cnn"],
  systems: () => systems(...RIVALS),
  durationS: 305,
});

export const staticModels = figureOf({
  name: "dynamic-static",
  title: "Finish rate on static models",
  paper: "Table 4: Orloj as good as Clockwork, and better from 3 × P99 on",
  file: "dynamic-static",
  settings: ["0.9", "1.3"].map((load) => ({ name: `load-${load}`, text: `load ${load}`, set: { load } })),
  cases: ["inception-imagenet", "resnet-imagenet"],
  quickCases: ["resnet-imagenet"],
  setOf: (name) => ({ model: name }),
  pictured: ["inception-imagenet", "resnet-imagenet"],
  systems: () => systems("default", "deferred", "eager", "orloj", "knows-lengths", "clockwork", "nexus", "clipper"),
  durationS: 105,
});
