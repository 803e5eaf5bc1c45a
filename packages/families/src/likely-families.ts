/** Which of many models might be families: those that take the same and begin alike. */
import { nodeHashes } from "@tutti/onnx-tools";
import { type FamilyMember, mismatchOf } from "./family-spec.ts";

/** Of each model's nodes; less in common is not worth a look. */
const LEAST_SHARED = 0.1;

interface Hashed {
  readonly member: FamilyMember;
  readonly hashes: readonly string[];
  readonly opsets: string;
}

/** Groups of two and more, each as likely a family, in the order of their first members; the others are in none. */
export function likelyFamilies(members: readonly FamilyMember[]): FamilyMember[][] {
  const groups: Hashed[][] = [];
  // Only what might have company is read: most models take something that no other does.
  const company = members.filter((one) =>
    members.some((other) => other !== one && mismatchOf([one, other]) === undefined),
  );
  for (const [i, member] of company.entries()) {
    const hashed: Hashed = { member, ...nodeHashes(member.bytes, String(i)) };
    const group = groups.find(([first]) => belongs(first!, hashed));
    if (group === undefined) groups.push([hashed]);
    else group.push(hashed);
  }
  return groups.filter(({ length }) => length > 1).map((group) => group.map(({ member }) => member));
}

function belongs(first: Hashed, other: Hashed): boolean {
  if (first.opsets !== other.opsets || mismatchOf([first.member, other.member]) !== undefined) return false;
  const own = new Set(first.hashes);
  const shared = other.hashes.filter((hash) => own.has(hash)).length;
  return shared >= LEAST_SHARED * Math.max(first.hashes.length, other.hashes.length) && shared > 0;
}
