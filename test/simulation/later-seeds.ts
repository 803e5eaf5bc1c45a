/**
 * The first seed that may have what was drawn later: a planner, parts of accelerators, pipelines and clocks that drift.
 * All seeds before it mean what they meant when they were found.
 */
export const LATER_SEEDS = 3_000_001;
