/**
 * Rounding with a slack of 1e-9, relative above 1: `d·(b/d)` often lands at 8.000000000000002, and a bare ceiling makes
 * a 9 of it and silently breaks feasibility. docs/algorithms.md, section 0.
 */
export const ceilE = (x: number): number => Math.ceil(x - 1e-9 * Math.max(1, Math.abs(x)));
export const floorE = (x: number): number => Math.floor(x + 1e-9 * Math.max(1, Math.abs(x)));
