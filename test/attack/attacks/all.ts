/** Every attack, in the order in which they are made. */
import type { Attack } from "../attack.ts";
import { keyAttacks } from "./api-keys.ts";
import { applicationAttacks } from "./applications.ts";
import { bodyAttacks } from "./bodies.ts";
import { browserAttacks } from "./browsers.ts";
import { contentAttacks } from "./content.ts";
import { dataPlaneAttacks } from "./data-plane.ts";
import { decodingAttacks } from "./decoding.ts";
import { mediaAttacks } from "./media.ts";
import { endlessAttacks, modelAttacks } from "./models.ts";
import { sharedMemoryAttacks } from "./shared-memory.ts";
import { slowAttacks } from "./slow.ts";
import { smugglingAttacks } from "./smuggling.ts";

export const ATTACKS: readonly Attack[] = [
  ...browserAttacks,
  ...smugglingAttacks,
  ...contentAttacks,
  ...decodingAttacks,
  ...modelAttacks,
  ...mediaAttacks,
  ...bodyAttacks,
  ...sharedMemoryAttacks,
  ...slowAttacks,
  ...endlessAttacks,
  ...applicationAttacks,
  ...dataPlaneAttacks,
  ...keyAttacks,
];
