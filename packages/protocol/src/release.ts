/** The release that this code belongs to: one number for all packages (test/release holds them together). */
export const TUTTI_RELEASE = "0.1.0";
