/**
 * Finish rates that Orloj's paper prints for itself and the others: its Tables 2 to 5. In percent, for SLOs of 1.5, 2,
 * 3, 4 and 5 times the 99th percentile. The paper gives neither the load nor the cost of batches, so the rates show
 * which system is ahead, not which rates to expect here.
 */
/** Finish rates of one case, in the order of `PRINTED_SLOS`. */
interface Printed {
  readonly clipper: string;
  readonly nexus: string;
  readonly clockwork: string;
  readonly orloj: string;
}

export const PRINTED_SLOS = ["1.5", "2", "3", "4", "5"] as const;

const PRINTED: Readonly<Record<string, Printed>> = {
  // Table 2
  "std-0.5": { clipper: "1 1 4 11 20", nexus: "1 2 5 13 25", clockwork: "44 53 62 61 57", orloj: "57 76 96 99 100" },
  "std-1": { clipper: "2 3 10 21 33", nexus: "2 3 10 19 34", clockwork: "46 53 55 53 56", orloj: "60 76 97 99 100" },
  "std-2": { clipper: "4 7 19 34 49", nexus: "3 5 13 30 54", clockwork: "43 51 55 50 59", orloj: "59 73 97 100 100" },
  "std-2/0.5": {
    clipper: "16 28 61 89 97",
    nexus: "18 32 68 93 100",
    clockwork: "52 59 60 59 63",
    orloj: "75 83 98 96 100",
  },
  "std-0.5/2": { clipper: "1 1 4 8 15", nexus: "1 2 4 9 17", clockwork: "38 50 57 66 52", orloj: "40 61 90 97 99" },
  // Table 3
  "one-modal": {
    clipper: "3 10 45 73 82",
    nexus: "4 13 54 80 91",
    clockwork: "48 55 61 58 60",
    orloj: "46 74 98 100 100",
  },
  "two-modal": {
    clipper: "1 4 13 27 37",
    nexus: "3 3 14 30 44",
    clockwork: "45 58 51 56 55",
    orloj: "60 75 97 100 100",
  },
  "three-modal": {
    clipper: "3 5 10 18 35",
    nexus: "4 5 9 23 42",
    clockwork: "45 55 61 60 61",
    orloj: "59 68 97 99 99",
  },
  "four-modal": {
    clipper: "3 5 8 10 14",
    nexus: "5 7 12 16 19",
    clockwork: "46 56 59 60 60",
    orloj: "59 73 94 98 100",
  },
  "five-modal": { clipper: "2 2 3 4 7", nexus: "3 3 7 8 8", clockwork: "47 55 59 57 56", orloj: "60 73 94 97 99" },
  "six-modal": { clipper: "4 3 6 7 8", nexus: "4 5 8 9 11", clockwork: "46 53 53 51 54", orloj: "58 71 92 97 99" },
  "seven-modal": { clipper: "3 4 8 10 12", nexus: "5 5 9 12 15", clockwork: "43 51 54 52 54", orloj: "59 73 93 98 99" },
  "eight-modal": { clipper: "3 5 8 9 11", nexus: "4 6 9 13 14", clockwork: "33 49 43 52 50", orloj: "60 74 93 97 99" },
  // Table 4
  "inception-imagenet": {
    clipper: "1 31 86 96 98",
    nexus: "1 30 88 97 98",
    clockwork: "16 58 84 82 83",
    orloj: "41 48 84 99 99",
  },
  "resnet-imagenet": {
    clipper: "1 15 62 89 95",
    nexus: "0 15 64 91 96",
    clockwork: "30 59 77 88 87",
    orloj: "42 48 85 98 99",
  },
  // Table 5
  "blenderbot-convAI": {
    clipper: "5 18 56 71 75",
    nexus: "6 21 63 81 87",
    clockwork: "43 61 64 65 65",
    orloj: "45 65 74 81 81",
  },
  "blenderbot-cornell": {
    clipper: "6 20 54 71 74",
    nexus: "6 20 57 74 77",
    clockwork: "43 60 62 64 64",
    orloj: "44 68 75 81 82",
  },
  "gpt-convAI": {
    clipper: "39 79 91 92 92",
    nexus: "38 83 99 100 100",
    clockwork: "39 57 61 63 61",
    orloj: "36 64 86 97 98",
  },
  "gpt-cornell": {
    clipper: "45 84 94 94 95",
    nexus: "44 86 100 100 100",
    clockwork: "46 65 73 73 74",
    orloj: "44 68 97 99 100",
  },
  "bart-cnn": {
    clipper: "12 36 73 78 80",
    nexus: "11 36 73 79 81",
    clockwork: "44 46 46 44 44",
    orloj: "46 71 97 99 100",
  },
  "t5-cnn": {
    clipper: "48 86 99 99 99",
    nexus: "46 84 100 100 100",
    clockwork: "47 50 50 52 51",
    orloj: "49 74 100 100 100",
  },
  "fsmt-wmt": {
    clipper: "4 21 63 73 75",
    nexus: "4 23 65 76 79",
    clockwork: "45 50 51 53 54",
    orloj: "45 59 88 93 95",
  },
  "mbart-wmt": {
    clipper: "7 28 71 76 78",
    nexus: "10 30 73 78 80",
    clockwork: "38 36 35 36 35",
    orloj: "47 59 91 96 98",
  },
  "rdinet-cifar": {
    clipper: "61 98 99 99 99",
    nexus: "61 99 100 100 100",
    clockwork: "48 47 48 48 48",
    orloj: "49 84 100 100 100",
  },
  "skipnet-imagenet": {
    clipper: "0 0 0 0 0",
    nexus: "0 3 12 31 48",
    clockwork: "5 14 21 12 16",
    orloj: "24 62 92 95 89",
  },
};

/**
 * Printed finish rate of a case, in percent; empty where the tables have none. Tutti has no column: Orloj's stands
 * beside it.
 */
export function printed(name: string, policy: string, sloP99: string): string {
  const system = policy.split(":")[0]! as keyof Printed;
  const place = (PRINTED_SLOS as readonly string[]).indexOf(sloP99);
  const own = PRINTED[name]?.[system]?.split(" ")[place];
  if (own !== undefined) return `${own} %`;
  const theirs = policy === "default" ? PRINTED[name]?.orloj.split(" ")[place] : undefined;
  return theirs === undefined ? "" : `Orloj ${theirs} %`;
}
